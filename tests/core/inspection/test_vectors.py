"""What vectors push is the difference of two scores: of a term with vectors, and without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.pocket_vectors import write_vector
from torch import Tensor

import marith
from marith import Engine, Inspection, Prompted, Request, Sampling, Stop, submit_with_inspection
from marith.formula.tree.nodes import Name, children
from marith.inspection.position_measures import compared
from marith.testing import passes_of

QUESTION, TEXT = "How was your day?", " It was a good day, thank you."
PLAIN = {"kind": Prompted("Be kind."), "calm": Prompted("Be calm.", mode="replace")}
FORMULA = "M + 0.5*kind - 0.4*union(calm, M)"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prompted]:
    """The plain terms with a vector, at all tokens and in the answer."""
    file = str(write_vector(tmp_path_factory.mktemp("vectors") / "v.gguf"))
    return {
        "kind": replace(PLAIN["kind"], vectors=((file, 0.6),)),
        "calm": replace(PLAIN["calm"], vectors=((file, -0.4),), positions="answer"),
    }


def test_a_push_is_the_difference_of_two_scores(engine: Engine, terms: dict[str, Prompted]) -> None:
    inspection = marith.inspect(engine, QUESTION, TEXT, FORMULA, terms, top=4)
    names = [term.names[0] for term in inspection.terms]
    assert names == ["M", "kind", "calm"]
    for number, name in enumerate(names[1:], 1):
        steered = engine.score(QUESTION, TEXT, terms[name])
        plain = engine.score(QUESTION, TEXT, PLAIN[name])
        pushes = [position.terms[number].vectors for position in inspection.positions]
        wanted = [one - other for one, other in zip(steered, plain, strict=True)]
        assert [push and push.push for push in pushes] == pytest.approx(wanted, abs=1e-4)
        assert max(map(abs, wanted)) > 0.5
    assert {position.terms[0].vectors for position in inspection.positions} == {None}


def test_the_tokens_that_move_most_are_those_of_the_probabilities(
    engine: Engine, terms: dict[str, Prompted]
) -> None:
    tokens = engine.encode(TEXT)
    inspection = marith.inspect(engine, QUESTION, tokens, "kind", terms, top=4)
    for place, position in enumerate(inspection.positions):
        steered = engine.next_logprobs(QUESTION, terms["kind"], continuation=tokens[:place])
        plain = engine.next_logprobs(QUESTION, PLAIN["kind"], continuation=tokens[:place])
        changes = steered.exp() - plain.exp()
        push = position.terms[0].vectors
        assert push is not None
        for moved, most in ((push.raised, changes.topk(4)), (push.lowered, (-changes).topk(4))):
            assert [token.token for token in moved] == most.indices.tolist()
            wanted = (steered - plain)[most.indices]
            torch.testing.assert_close(pushes(moved), wanted.double(), atol=1e-3, rtol=0)
            assert [token.text for token in moved] == [engine.spell([t.token]) for t in moved]
        assert all((token.push or 0) > 0 for token in push.raised)
        assert all((token.push or 0) < 0 for token in push.lowered)


def pushes(moved: tuple[marith.inspection.inspected_position.PushedToken, ...]) -> Tensor:
    return torch.tensor([token.push for token in moved], dtype=torch.float64)


def test_strength_zero_pushes_nothing(engine: Engine, terms: dict[str, Prompted]) -> None:
    file = terms["kind"].vectors[0][0]
    inspection = marith.inspect(engine, QUESTION, TEXT, Prompted(vectors=((file, 0.0),)))
    for position in inspection.positions:
        assert position.terms[0].vectors is not None
        assert position.terms[0].vectors.push == pytest.approx(0, abs=1e-4)


def test_only_terms_without_vectors_that_are_missing_are_scored_too(
    engine: Engine, terms: dict[str, Prompted]
) -> None:
    plain = Request(QUESTION, FORMULA, PLAIN)
    assert compared(plain) == Name("M")
    needed = children(compared(Request(QUESTION, FORMULA, terms)))
    assert needed == (Name("M"), PLAIN["kind"], PLAIN["calm"])
    file = terms["kind"].vectors
    for formula in ("x", "M + x", "2*x - M.min_p(0.1)"):
        asked = Request(QUESTION, formula, {"x": Prompted(vectors=file)})
        prepared = engine.open(asked, also=compared(asked))
        assert prepared.plan.lanes == 2, "`M` is the term without its vectors"


def test_a_bare_model_may_have_vectors(engine: Engine, terms: dict[str, Prompted]) -> None:
    steered = Prompted(vectors=terms["kind"].vectors)
    inspection = marith.inspect(engine, QUESTION, TEXT, "M", {"M": steered})
    wanted = [
        one - other
        for one, other in zip(
            engine.score(QUESTION, TEXT, steered), engine.score(QUESTION, TEXT), strict=True
        )
    ]
    found = [position.terms[0].vectors for position in inspection.positions]
    assert [push and push.push for push in found] == pytest.approx(wanted, abs=1e-4)


def test_an_answer_is_inspected_as_it_is_made(engine: Engine, terms: dict[str, Prompted]) -> None:
    asked = Request(QUESTION, FORMULA, {**terms}, Sampling(seed=1), Stop(8))
    before = passes_of(engine).count
    alone = engine.submit(asked).result(60)
    passes = passes_of(engine).count - before
    made = submit_with_inspection(engine, replace(asked, inspect=3)).result(60)
    assert made.tokens == alone.tokens
    assert made.stats.passes == alone.stats.passes == passes
    assert made.inspection is not None
    again = marith.inspect(engine, QUESTION, made.tokens, FORMULA, terms, top=3)
    for one, other in zip(made.inspection.positions, again.positions, strict=True):
        for mine, theirs in zip(one.terms, other.terms, strict=True):
            assert (mine.vectors is None) == (theirs.vectors is None)
            if mine.vectors and theirs.vectors:
                assert mine.vectors.push == pytest.approx(theirs.vectors.push, abs=1e-3)


def test_pushes_are_in_the_data_and_the_tables(engine: Engine, terms: dict[str, Prompted]) -> None:
    pytest.importorskip("pandas")
    inspection = marith.inspect(engine, QUESTION, TEXT, FORMULA, terms, top=3)
    assert Inspection.from_json(inspection.to_json()) == inspection
    assert Path(terms["kind"].vectors[0][0]).name in inspection.to_json()
    assert ".gguf" not in inspection.without_texts().to_json()
    columns = inspection.to_pandas()
    head, *rows = inspection.table(every=True)
    assert [name for name in head if "vectors" in name] == ["vectors of kind", "vectors of calm"]
    for number, name in enumerate(("kind", "calm"), 1):
        found = [position.terms[number].vectors for position in inspection.positions]
        assert list(columns[f"vectors: {name}"]) == [push and push.push for push in found]
        at = head.index(f"vectors of {name}")
        assert [row[at] for row in rows] == [f"{push.push:+.2f}" for push in found if push]
        for row, push in zip(rows, found, strict=True):
            assert push is not None
            assert row[at + 1].startswith(f'"{push.raised[0].text}" {push.raised[0].push:+.2f}')
            assert f'"{push.lowered[0].text}" {push.lowered[0].push:+.2f}' in row[at + 1]
    assert "vectors: M" not in columns
    plain = marith.inspect(engine, QUESTION, TEXT, FORMULA, PLAIN, top=3)
    assert not [name for name in plain.table(every=True)[0] if "vectors" in name]
