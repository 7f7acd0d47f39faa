"""Calibration on real models: what it measures is true, and its plan can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.checked_engine import CheckedEngine

from marith import Engine, Plan, Request, RequestError, Sampling, Stop
from marith.engine.calibrate import Transcript
from marith.formula.meaning.binding import resolve
from marith.speculation.cost_model import LAGS, Price, Samples, best_factor, paper_factors
from marith.testing import tiny_model, tiny_tokenizer

PROMPTS = ["a b", "c d e", "f"]


def samples(checked: CheckedEngine, formula: str) -> tuple[Samples, list[list[int]]]:
    said, texts = [], []
    for i, prompt in enumerate(PROMPTS):
        reader = checked.engine.open(Request(prompt, formula, checked.terms, speculation=Plan()))
        tokens = checked.engine.generate(
            prompt, formula, checked.terms, Sampling(seed=i), Stop(12), None
        ).tokens
        if tokens:
            transcript = Transcript(reader, tokens)
            said.append(checked.engine.run(transcript).result())
            texts.append(tokens)
    return Samples(reader.plan, said), texts


def test_the_acceptance_is_one_minus_the_total_variation_averaged_over_all_tokens(
    checked: CheckedEngine,
) -> None:
    measured, _ = samples(checked, "M + 0.5*x")
    terms = resolve(checked.terms)
    got = measured.acceptance(terms["M"], measured.plan.whole)
    shared = []
    for i, prompt in enumerate(PROMPTS):
        tokens = checked.engine.generate(
            prompt, "M + 0.5*x", checked.terms, Sampling(seed=i), Stop(12), None
        ).tokens
        for end in range(len(tokens)):
            ask: dict[str, Any] = {"terms": checked.terms, "continuation": tokens[:end]}
            guess = checked.engine.next_logprobs(prompt, "M", **ask).double().exp()
            truth = checked.engine.next_logprobs(prompt, "M + 0.5*x", **ask).double().exp()
            shared.append(1 - 0.5 * float((guess - truth).abs().sum()))
    assert got == pytest.approx(sum(shared) / len(shared), abs=1e-4)


def test_the_papers_factor_is_the_convex_minimum_for_two_terms(checked: CheckedEngine) -> None:
    measured, _ = samples(checked, "M + 0.5*x")
    terms = resolve(checked.terms)
    prices = [Price.by_calls(terms["M"]), Price.by_calls(terms["x"])]
    chance = measured.acceptance(terms["M"], measured.plan.whole)
    assert paper_factors(measured, prices) == {terms["x"]: best_factor(chance, 1.0, 1.0)}


@pytest.mark.parametrize(
    ("formula", "costs"),
    [
        ("M", "calls"),
        ("M + 0.5*x", "time"),
        ("supersede(A, M + x)", "calls"),
        ("supersede(big, M - 0.5*x)", "time"),
        ("M + x + C", "time"),
        ("A + M", "calls"),
    ],
)
def test_a_calibrated_plan_works_with_its_formula(
    checked: CheckedEngine, formula: str, costs: Any
) -> None:
    plan = checked.engine.calibrate(formula, PROMPTS, checked.terms, costs)
    assert Plan.from_json(plan.to_json()) == plan
    cold = Sampling(temperature=0.0)
    drafted = checked.engine.generate("a b", formula, checked.terms, cold, Stop(12), plan)
    plain = checked.engine.generate("a b", formula, checked.terms, cold, Stop(12), None)
    assert drafted.tokens == plain.tokens


def test_drafts_that_are_accepted_are_long_and_drafts_that_are_not_are_off(
    tmp_path: Path,
) -> None:
    twin, stranger = str(tmp_path / "twin"), str(tmp_path / "stranger")
    model, tokenizer = tiny_model(seed=1), tiny_tokenizer()
    for folder, one in ((twin, model), (stranger, tiny_model(seed=9, sharpness=20.0))):
        one.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    with Engine.load(model, tokenizer=tokenizer) as engine:
        # a call of the draft counts one, and each check three
        formula = 'supersede(prompted(model="{}"), M + 0.0001*x + 0.0001*y)'
        terms = {"x": "q w", "y": "r t"}
        alike = engine.calibrate(formula.format(twin), PROMPTS, terms, "calls")
        other = engine.calibrate(formula.format(stranger), PROMPTS, terms, "calls")
    # M's own check saves no call, since the draft's costs as much; those of x and y do
    assert dict(alike.every)['prompted("q w")'] >= max(LAGS)
    assert dict(other.every).get("prompted()", 1) <= 3


@pytest.mark.parametrize("prompts", ["a b", [], None, 3])
def test_wrong_prompts_and_costs_are_refused(checked: CheckedEngine, prompts: Any) -> None:
    with pytest.raises(RequestError, match="prompts are a list"):
        checked.engine.calibrate("M", prompts)
    with pytest.raises(RequestError, match="'time' or 'calls', not 'money'"):
        checked.engine.calibrate("M", PROMPTS, costs="money")  # type: ignore[arg-type]  # a wrong value


def test_a_calibration_says_how_long_it_takes_and_how_far_it_is(
    checked: CheckedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    shares: list[float] = []
    with caplog.at_level("INFO", "marith.engine.calibrate"):
        checked.engine.calibrate("M + 0.5*x", PROMPTS, checked.terms, on_progress=shares.append)
    assert "a calibration on 3 prompts takes about" in caplog.text
    assert len(shares) >= 2 * len(PROMPTS) + 1  # texts, readings, and what is timed
    assert shares == sorted(shares)
    assert shares[0] < 0.4
    assert shares[-1] == 1.0
