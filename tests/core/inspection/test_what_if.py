"""The text under other numbers of a formula is predicted without a model."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from support.checked_engine import CheckedEngine
from support.what_if_cases import cases, first_difference, flips

import marith
from marith import Ban, Engine, FormulaError, Grammar, Plan, Request, RequestError, Sampling, Stop
from marith.formula.meaning.binding import resolve
from marith.inspection import what_if as keeping_rows
from marith.inspection.formula_numbers import NumberedFormula

TRIED = 40


def test_the_first_flip_is_where_the_regenerated_text_differs(checked: CheckedEngine) -> None:
    tried = [flips(checked.engine, case) for case in islice(cases(checked.terms, 7), TRIED)]
    real = [pair for pair in tried if pair is not None]
    assert len(real) >= 20
    assert [foreseen for foreseen, _ in real] == [actual for _, actual in real]
    assert sum(actual is not None for _, actual in real) >= 8
    assert any(actual is None for _, actual in real)


def test_constraints_and_the_prefix_are_replayed(checked: CheckedEngine) -> None:
    def odd(rows: torch.Tensor, text: list[int], places: list[int]) -> torch.Tensor:
        return rows.index_fill(1, torch.arange(0, rows.shape[1], 2), -math.inf)

    for i, options in enumerate(
        ({"grammar": Grammar.regex("[a-m]{3,9}[n-z]")}, {"constraints": [odd]}, {"prefix": "a b"},
         {"stop": Stop(12, min_tokens=9)})
    ):  # fmt: skip
        request = Request(
            "a b", "2*x - M", checked.terms, Sampling(seed=i), **{"stop": Stop(12), **options}
        )
        completion = checked.engine.submit(request).result()
        kept = marith.what_if(checked.engine, request, completion)
        assert kept.at(0, [2.0]).first_flip == (None,)
        redrawn = kept.at(0, [1.05, 1.5, 3.0])
        for value, foreseen in zip(redrawn.values, redrawn.first_flip, strict=True):
            changed = replace(request, formula=kept.changed(0, value))
            other = checked.engine.submit(changed).result()
            assert first_difference(completion, other) == foreseen, options


def test_cuts_that_leave_a_grammar_nothing_are_lifted_as_in_the_text(
    checked: CheckedEngine,
) -> None:
    request = Request(
        "a b", "(2*x - M).top_k(2)", checked.terms, Sampling(seed=1), Stop(12),
        grammar=Grammar.regex("[a-m]{3,9}[n-z]"),
    )  # fmt: skip
    completion = checked.engine.submit(request).result()
    assert completion.stats.uncut
    kept = marith.what_if(checked.engine, request, completion)
    assert kept.at(0, [2.0]).first_flip == (None,)
    redrawn = kept.at(0, [1.05, 1.5, 3.0])
    for value, foreseen in zip(redrawn.values, redrawn.first_flip, strict=True):
        other = checked.engine.submit(replace(request, formula=kept.changed(0, value))).result()
        assert first_difference(completion, other) == foreseen


def test_a_special_token_that_a_stop_string_names_is_one_more_position() -> None:
    def forced(rows: torch.Tensor, text: list[int], places: list[int]) -> torch.Tensor:
        wanted = [[user if place == 4 else 300 + place] for place in places]
        return torch.full_like(rows, -math.inf).scatter(1, torch.tensor(wanted), 0.0)

    with Engine.load("pocket") as engine:
        names = [engine.spell([token]) for token in range(engine.vocabulary_size)]
        user = names.index("<|user|>")
        stop, seed = Stop(8, ("<|user|>",)), Sampling(seed=1)
        request = Request("x", "2*M", None, seed, stop, constraints=[forced])
        completion = engine.submit(request).result()
        kept = marith.what_if(engine, request, completion)
    assert completion.stop_string == "<|user|>"
    assert kept.ended
    assert [len(row) for row in kept.at(0, [1.0]).tokens] == [5]


def test_submit_what_if_gives_the_same_result_as_what_if(checked: CheckedEngine) -> None:
    request = Request("a", "2*x - 0.5*M", checked.terms, Sampling(seed=3), Stop(8))
    completion = checked.engine.submit(request).result()
    future = marith.submit_what_if(checked.engine, request, completion)
    assert future.result().at(0, [1.5]) == marith.what_if(checked.engine, request, completion).at(
        0, [1.5]
    )
    for tokens, problem in (([99], "99"), ([-1], "-1"), ([1] * 10_000, "there is room for")):
        with pytest.raises(RequestError, match=problem):
            marith.submit_what_if(checked.engine, request, replace(completion, tokens=tokens))


def test_the_memory_and_the_values_of_a_what_if_are_bounded(checked: CheckedEngine) -> None:
    request = Request("a", "2*x - 0.5*M", checked.terms, Sampling(seed=3), Stop(8, ignore_eos=True))
    completion = checked.engine.submit(request).result()
    kept = marith.what_if(checked.engine, request, completion)
    assert kept.tokens == tuple(completion.tokens)
    assert not kept.ended
    redrawn = kept.at(0, [2.0, 1.5, 0.5])
    assert redrawn.tokens[0] == kept.tokens
    assert [len(row) for row in redrawn.tokens] == [8, 8, 0]
    assert redrawn.refused[:2] == (None, None)
    assert "weight" in str(redrawn.refused[2])
    with pytest.raises(RequestError, match="8 positions × 2 terms × 28 tokens take 0 MiB, and"):
        marith.what_if(checked.engine, request, completion, most_bytes=1000)
    with pytest.raises(RequestError, match="number must be a whole number from 0 to 1, not 2"):
        kept.at(2, [1.0])
    with pytest.raises(RequestError, match="at most 1,000 values"):
        kept.at(0, [1.0] * 1001)


def test_the_rows_of_terms_are_not_copied(
    checked: CheckedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(
        "a", "2*x - 0.5*M", checked.terms, Sampling(seed=3), Stop(110, ignore_eos=True)
    )
    completion = checked.engine.submit(request).result()
    shapes: list[tuple[int, ...]] = []

    def joined(rows: list[torch.Tensor], *rest: Any, **how: Any) -> torch.Tensor:
        whole = join(rows, *rest, **how)
        shapes.append(tuple(whole.shape))
        return whole

    join = torch.cat
    monkeypatch.setattr(keeping_rows.torch, "cat", joined)
    kept = marith.what_if(checked.engine, request, completion)
    monkeypatch.undo()
    assert len(completion.tokens) == 110
    assert (110, 28) not in shapes, "both terms' rows are copied to where they stay"
    scores = checked.engine.score("a", completion.tokens, "x", checked.terms)
    x = kept._rows[resolve(checked.terms)["x"]]  # type: ignore[index]  # a term
    of_text = x.gather(1, torch.tensor(completion.tokens)[:, None])[:, 0]
    assert of_text.tolist() == pytest.approx(scores, abs=1e-4)


def test_a_term_that_was_multiplied_by_zero_is_kept(checked: CheckedEngine) -> None:
    request = Request("a", "M + 0*x", checked.terms, Sampling(temperature=0), Stop(8))
    completion = checked.engine.submit(request).result()
    redrawn = marith.what_if(checked.engine, request, completion).at(0, [0.0, 5.0])
    changed = checked.engine.submit(replace(request, formula="M + 5*x")).result()
    assert redrawn.first_flip == (None, first_difference(completion, changed))


def test_a_number_that_changes_the_candidates_of_a_classifier_is_refused(
    checked: CheckedEngine,
) -> None:
    request = Request("a", "2*x - 0.5*M + 3*C", checked.terms, Sampling(seed=3), Stop(8))
    kept = marith.what_if(checked.engine, request, checked.engine.submit(request).result())
    refused = kept.at(1, [0.4]).refused[0]
    assert refused is not None
    assert "changes which tokens" in refused
    assert kept.at(2, [2.0]).refused == (None,)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sampling": Sampling()}, "no seed"),
        ({"ban": Ban(("zz",))}, "a ban"),
        ({"speculation": Plan.factors({"x": 2})}, "a plan"),
    ],
)
def test_draws_that_cannot_be_repeated_are_refused(
    checked: CheckedEngine, options: dict[str, object], reason: str
) -> None:
    given = {"sampling": Sampling(seed=1), "stop": Stop(3), **options}
    request = Request("a", "2*x - M", checked.terms, **given)  # type: ignore[arg-type]
    completion = checked.engine.submit(request).result()
    with pytest.raises(RequestError, match=f"cannot be repeated: .*{reason}"):
        marith.what_if(checked.engine, request, completion)


def test_numbers_are_found_and_replaced_in_the_text_of_a_formula() -> None:
    text = '0.5*prompted("größe 3", exit_layer=2) - 1e-3*cfg(größe, M, 2) + steered.top_k(40)/-2'
    text = text.replace("steered", 'prompted(vectors={"ö": -3, "b": 0.25})')
    numbered = NumberedFormula.of(text)
    assert [n.value for n in numbered.numbers] == [0.5, 0.001, 2.0, 40.0, 2.0]
    assert [numbered.text[n.start : n.end] for n in numbered.numbers] == [
        "0.5",
        "1e-3",
        "2",
        "40",
        "2",
    ]
    changed = numbered.changed(1, -0.25)
    assert changed == text.replace("1e-3", "-0.25")
    assert (
        NumberedFormula.of("M - 0*x + 0.0*y").without_zeros()
        == NumberedFormula.of("M - 1*x + y").without_zeros()
    )
    with pytest.raises(FormulaError, match="finite"):
        numbered.changed(0, math.nan)
    with pytest.raises(RequestError, match=r"^the formula 'M' has no numbers$"):
        NumberedFormula.of("M").changed(0, 1.0)


def test_an_invalid_request_or_completion_is_refused(checked: CheckedEngine) -> None:
    engine: Engine = checked.engine
    with pytest.raises(RequestError, match="takes the Request of a completion, not 'a'"):
        marith.what_if(engine, "a", "b")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="takes a Completion, not 'b'"):
        marith.what_if(engine, Request("a"), "b")  # type: ignore[arg-type]
