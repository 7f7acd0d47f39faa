"""What an engine says of each token of a text, beside `next_logprobs`, `score` and torch."""

from __future__ import annotations

import json
import math

import jsonschema
import pytest
import torch
from support.checked_engine import FORMULAS, CheckedEngine

import marith
from marith import Engine, Inspection, RequestError, parse
from marith.decoding.evaluate import evaluate
from marith.errors import UnknownOption
from marith.inspection import inspecting as one_pass
from marith.inspection.contributions import DoubleRows
from marith.inspection.inspected_position import (
    RANKED,
    InspectedPosition,
    LikelyToken,
    runs_of,
)
from marith.inspection.position_measures import MOST_VALUES, PositionMeasures, rank_tokens
from marith.testing import tiny_model, tiny_tokenizer

PROMPT, TEXT = "a b c", [3, 17, 9, 4, 22]
ALL = (*FORMULAS, "M + jsd(M, x)*x", "where(position() > 2, x, M)", "M + 0.5*class_prob(C)*big")


def likely(pairs: tuple[LikelyToken, ...]) -> list[tuple[int, float | None]]:
    return [(pair.token, pair.logprob) for pair in pairs]


@pytest.mark.parametrize("formula", ALL)
def test_composed_values_are_those_of_scoring(checked: CheckedEngine, formula: str) -> None:
    engine, terms = checked.engine, checked.terms
    inspection = marith.inspect(engine, PROMPT, TEXT, formula, terms, top=4)
    scores = engine.score(PROMPT, TEXT, formula, terms)
    assert [p.token for p in inspection.positions] == TEXT
    assert inspection.formula == formula
    for place, (position, score) in enumerate(zip(inspection.positions, scores, strict=True)):
        logprobs = engine.next_logprobs(PROMPT, formula, terms, TEXT[:place])
        bare = engine.next_logprobs(PROMPT, "M", terms, TEXT[:place])
        assert position.place == place
        assert_close(position.logprob, score)
        assert_close(position.logprob, float(logprobs[position.token]))
        assert_close(position.bare_logprob, float(bare[position.token]))
        assert position.bare_likeliest.token == int(bare.argmax())
        first, bare_first = int(logprobs.argmax()), int(bare.argmax())
        assert position.flipped == (first == position.token != bare_first)
        best = logprobs.topk(4)
        for (token, value), logprob in zip(likely(position.top), best.values, strict=True):
            assert_close(value, float(logprob))
            assert_close(value, float(logprobs[token]))
        finite = logprobs[logprobs > -math.inf]
        assert position.entropy == pytest.approx(float(-(finite.exp() * finite).sum()), abs=1e-4)
        assert_reference(position, logprobs, int(bare.argmax()))


def assert_reference(position: InspectedPosition, logprobs: torch.Tensor, bare: int) -> None:
    """The reference is M's likeliest or the runner-up, and the exact parts add up."""
    token = position.token
    if bare == token or logprobs[bare] == -math.inf:
        others = logprobs.clone()
        others[token] = -math.inf
        bare = int(others.argmax())
    assert position.reference.token == bare
    if position.logprob is None or position.reference.logprob is None:
        assert position.log_odds is None
    else:
        odds = position.logprob - position.reference.logprob
        assert position.log_odds == pytest.approx(odds, rel=1e-4, abs=1e-4)


def assert_close(value: float | None, expected: float) -> None:
    assert value == (None if expected == -math.inf else pytest.approx(expected, abs=2e-4))


@pytest.mark.parametrize("formula", ALL)
def test_exact_contributions_are_the_log_odds_in_float64(
    checked: CheckedEngine, formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def compare(self: PositionMeasures, place: int) -> list[InspectedPosition]:
        nonlocal compared
        whole = evaluate(self._formula.formula, DoubleRows(self._rows))
        exact = len(self._formula.summands)
        positions = measured(self, place)
        for row, position in zip(whole.tolist(), positions, strict=True):
            parts = position.contributions[:exact]
            asked = [position.token, *(likely.token for likely in position.top)]
            values = zip(*([part.value, *part.of_top] for part in parts), strict=True)
            for token, of_parts in zip(asked, values, strict=True):
                odds = row[token] - row[position.reference.token]
                if math.isfinite(odds):
                    compared += 1
                    total = math.fsum(value for value in of_parts if value is not None)
                    assert total == pytest.approx(odds, rel=1e-5, abs=1e-9)
                else:
                    assert {*of_parts} == {None}
        return positions

    measured = PositionMeasures.positions
    monkeypatch.setattr(PositionMeasures, "positions", compare)
    marith.inspect(checked.engine, PROMPT, TEXT, formula, checked.terms, top=3)
    assert compared


def test_the_values_of_each_term_are_those_of_scoring(checked: CheckedEngine) -> None:
    formula = "2*x - 0.5*M + union(y, M) + 0.25*C"
    inspection = marith.inspect(checked.engine, PROMPT, TEXT, formula, checked.terms, top=5)
    names = [term.names[0] for term in inspection.terms]
    assert {t.names[0]: t.kind for t in inspection.terms} == {
        "x": "model", "M": "model", "y": "model", "C": "classifier",
    }  # fmt: skip
    weights = {"x": 2.0, "M": -0.5, "y": None, "C": 0.25}
    assert [part.text for part in inspection.parts] == [
        "2*x", "-0.5*M", "union(y, M)", "0.25*C", "y",
    ]  # fmt: skip
    assert [part.kind for part in inspection.parts] == ["exact"] * 4 + ["leave_one_out"]
    for place, position in enumerate(inspection.positions):
        composed = checked.engine.next_logprobs(PROMPT, formula, checked.terms, TEXT[:place])
        asked = [position.token, *(pair.token for pair in position.top)]
        for name, view in zip(names, position.terms, strict=True):
            assert view.weight == weights[name]
            if name == "C":
                assert (view.rank, view.entropy, view.kl, view.top) == (None, None, None, ())
                continue
            rows = checked.engine.next_logprobs(PROMPT, name, checked.terms, TEXT[:place])
            values = [view.logprob, *view.of_top]
            for token, value, rank in zip(
                asked, values, [view.rank, *view.ranks_of_top], strict=True
            ):
                assert_close(value, float(rows[token]))
                assert rank == 1 + int((rows > rows[token]).sum())
            assert [pair.token for pair in view.top] == rows.topk(5).indices.tolist()
            assert view.entropy == pytest.approx(float(-(rows.exp() * rows).sum()), abs=1e-4)
            assert view.kl == pytest.approx(float((rows.exp() * (rows - composed)).sum()), abs=1e-4)


def test_a_forbidden_token_has_none_and_not_minus_infinity(checked: CheckedEngine) -> None:
    inspection = marith.inspect(
        checked.engine, PROMPT, TEXT, "M.top_k(1) + x", checked.terms, top=3
    )
    position = inspection.positions[0]
    assert [pair.logprob for pair in position.top] == [0.0, None, None]
    assert position.terms[0].kl is None
    assert all(c.of_top[1:] == (None, None) for c in position.contributions)
    data = json.loads(inspection.to_json(), parse_constant=pytest.fail)
    jsonschema.validate(data, Inspection.json_schema())
    assert Inspection.from_json(inspection.to_json()) == inspection


def test_a_factor_that_varies_is_a_number_at_each_position(checked: CheckedEngine) -> None:
    inspection = marith.inspect(checked.engine, PROMPT, TEXT, "M + 0.5*position()*x", checked.terms)
    assert [p.terms[1].weight for p in inspection.positions] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert [p.weight for p in inspection.positions] == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert inspection.observations == ("position()",)
    assert [p.observations for p in inspection.positions] == [
        (0.0,),
        (1.0,),
        (2.0,),
        (3.0,),
        (4.0,),
    ]


def test_m_may_be_a_formula_of_its_own(checked: CheckedEngine) -> None:
    terms = {**checked.terms, "M": parse("2*x - y")}
    inspection = marith.inspect(checked.engine, PROMPT, TEXT, "y", terms)
    bare = checked.engine.score(PROMPT, TEXT, "2*x - y", checked.terms)
    assert [p.bare_logprob for p in inspection.positions] == pytest.approx(bare, abs=1e-4)
    assert [term.names for term in inspection.terms] == [("y",)]


def test_ranks_are_exact_up_to_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    words = 1500
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(words - 2)])
    model = tiny_model(vocab=words, sharpness=1.0)
    text = list(range(0, words, 17))
    with Engine.load(model, tokenizer=tokenizer) as engine:
        whole = marith.inspect(engine, "w3", text, "2*x - M", {"x": "w1 w2"}, top=3)
        for place in range(0, len(text), 9):
            position = whole.positions[place]
            logprobs = engine.next_logprobs("w3", "x", {"x": "w1 w2"}, text[:place])
            rank = 1 + int((logprobs > logprobs[position.token]).sum())
            expected = rank if rank <= RANKED else None
            assert position.terms[0].rank == pytest.approx(expected, abs=1)  # passes round
        assert {p.terms[0].rank is None for p in whole.positions} == {True, False}
        monkeypatch.setattr(one_pass, "AT_ONCE", 1)  # a position at a time says the same
        again = marith.inspect(engine, "w3", text, "2*x - M", {"x": "w1 w2"}, top=3)
    for one, other in zip(again.positions, whole.positions, strict=True):
        assert one.rank == other.rank
        assert one.log_odds == pytest.approx(other.log_odds, rel=1e-6)


def test_ranks_are_exact_with_ties_and_impossible_tokens() -> None:
    noise = torch.Generator().manual_seed(3)
    plain = -torch.arange(1500.0)
    ties = -(torch.arange(1500) // 3).float()
    holes = plain.masked_fill(torch.arange(1500) % 2 == 1, -math.inf)
    few = torch.full((1500,), -math.inf).index_fill(0, torch.arange(30), -1.0)
    rows = torch.stack([plain, ties, holes, few])
    places = [0, 1, 2, 29, 30, 62, 63, 64, 65, 66, 998, 999, 1000, 1001, 1002, 1499]
    for asked in ([64], [999], [1000], places, *([place] for place in places)):
        shuffled = torch.randperm(1500, generator=noise)
        tokens = torch.argsort(shuffled)[asked].expand(len(rows), -1)
        logprobs = rows[:, shuffled]
        found = rank_tokens(logprobs, tokens, 70 if len(asked) == 1 else 10)
        for row, ranks, tokens_of_row in zip(
            logprobs.tolist(), found.ranks.tolist(), tokens.tolist(), strict=True
        ):
            exact = [1 + sum(other > row[token] for other in row) for token in tokens_of_row]
            known = [rank if rank <= RANKED else None for rank in exact]
            assert [rank if rank <= RANKED else None for rank in ranks] == known
        best = logprobs.sort(dim=-1, descending=True).values[:, : found.best.shape[1]]
        assert found.best_logprobs.tolist() == best.tolist()


def test_only_what_follows_the_start_is_inspected(checked: CheckedEngine) -> None:
    whole = marith.inspect(checked.engine, PROMPT, TEXT, "2*x - M", checked.terms)
    rest = marith.inspect(checked.engine, PROMPT, TEXT, "2*x - M", checked.terms, start=3)
    assert [p.place for p in rest.positions] == [3, 4]
    assert [p.token for p in rest.positions] == TEXT[3:]
    assert rest.positions[0].logprob == pytest.approx(whole.positions[3].logprob, abs=1e-5)
    assert marith.inspect(checked.engine, PROMPT, TEXT, start=5).positions == ()
    assert marith.inspect(checked.engine, PROMPT, "").positions == ()


def test_without_leave_one_out_only_exact_parts_are_listed(checked: CheckedEngine) -> None:
    parts = marith.inspect(
        checked.engine, PROMPT, TEXT, "M - 0.5*union(x, M)", checked.terms, leave_one_out=False
    ).parts
    assert [part.kind for part in parts] == ["exact", "exact"]


@pytest.mark.parametrize("formula", ["M + unscaled(M + 0.5*x)", "x + x", "x + 2*y - x/2 + x"])
def test_a_table_has_a_column_for_each_part_even_if_texts_are_equal(
    checked: CheckedEngine, formula: str
) -> None:
    pytest.importorskip("pandas")
    inspection = marith.inspect(checked.engine, PROMPT, TEXT, formula, checked.terms)
    table = inspection.to_pandas()
    exact = [name for name in table.columns if name.startswith("exact: ")]
    assert len(exact) == len(inspection.parts)
    assert list(table[exact].sum(axis=1)) == pytest.approx(list(table["log_odds"]), rel=1e-9)


def test_tokens_that_are_parts_of_a_character_are_marked() -> None:
    text = "Größe 日本 🙂."
    with Engine.load("pocket") as engine:
        tokens = engine.encode(text)
        whole = marith.inspect(engine, "Hi.", tokens, top=1).positions
        rest = marith.inspect(engine, "Hi.", tokens, top=1, start=3).positions
        cut = marith.inspect(engine, "Hi.", tokens[:-2], top=1).positions
    assert [p.completed for p in rest] == [p.completed for p in whole[3:]]
    assert any("\\x" in p.text for p in whole)
    assert all((p.completed is None) == ("\\x" not in p.text) for p in whole)
    assert "".join(run.text for run in runs_of(whole)).strip() == text
    assert {len(run.text) for run in runs_of(whole) if len(run.positions) > 1} == {1}
    assert cut[-1].completed == "�"


def test_bad_arguments_are_refused_in_one_sentence(checked: CheckedEngine) -> None:
    engine = checked.engine
    with pytest.raises(RequestError, match="top must be a whole number of at least 1, not 0"):
        marith.inspect(engine, PROMPT, TEXT, top=0)
    with pytest.raises(RequestError, match="start must be a whole number from 0 to 5, not 6"):
        marith.inspect(engine, PROMPT, TEXT, start=6)
    with pytest.raises(RequestError, match=f"at most {MOST_VALUES:,} values.*smaller top"):
        marith.inspect(engine, PROMPT, TEXT, top=500_000)
    with pytest.raises(UnknownOption, match="temperature"):
        marith.inspect(engine, PROMPT, TEXT, temperature=0)  # type: ignore[call-arg]
