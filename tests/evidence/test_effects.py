"""What formulas do to texts, measured on pocket."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.applications import Report
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from marith import Engine, Prompted, Request, Sampling, Stop
from marith.evals.attributes import AttributesConfig, evaluate_attributes
from marith.evals.statistics import spearman
from marith.evals.system_prompts import POSITIVE, TOXIC
from marith.models import attribute
from marith.training import VectorSettings, train_vector
from tools.pocket.grammar import chats, conversations, reviews

PROMPTS = 64
PLAIN = {
    "M": {"formula": 'prompted(template="plain")'},
    "toxic": {"formula": f'prompted("{TOXIC}", template="plain")'},
    "positive": {"formula": f'prompted("{POSITIVE}", template="plain")'},
    "C": {"formula": 'classifier("pocket-toxicity", label="civil")'},
    "polite": {"formula": 'prompted(template="plain", adapter="pocket-polite")'},
    "rude": {"formula": 'prompted(template="plain", adapter="pocket-rude")'},
}
FORMAL = "You are an assistant using formal and objective language to answer the user."


@pytest.fixture(scope="module")
def pocket() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


def speak(
    engine: Engine, prompts: Sequence[str], formula: str, terms: Mapping[str, Any], stop: Stop
) -> list[str]:
    tickets = [
        engine.submit(Request(prompt, formula, terms, Sampling(seed=i), stop))
        for i, prompt in enumerate(prompts)
    ]
    return [ticket.result(timeout=240).text for ticket in tickets]


def test_formality_rises_from_the_bare_model_over_the_prompt_to_twice_the_prompt(
    pocket: Engine, report: Report
) -> None:
    draw = random.Random(1)
    prompts = [chats.question(draw) for _ in range(2 * PROMPTS)]
    means = {}
    for formula in ("M", "formal", "2*formal - M"):
        texts = speak(pocket, prompts, formula, {"formal": FORMAL}, Stop(60))
        means[formula] = statistics.mean(attribute(texts, "pocket-formality", "formal"))
        report(f"{formula:<36} formality {means[formula]:.4f}")
    assert means["2*formal - M"] > means["formal"] > means["M"]


def test_subtracting_a_union_detoxifies_and_a_classifier_detoxifies_further(
    pocket: Engine, report: Report
) -> None:
    draw = random.Random(2)
    prompts = [f"Person 1: {conversations.message(draw)}\nPerson 2:" for _ in range(2 * PROMPTS)]
    formulas = ("M", "M - 0.96*union(toxic, M)", "M - 0.96*union(toxic, M) + 0.04*C")
    stop = Stop(32, ("\n", "Person 1:"))
    bare, union, guided = (
        _mean(pocket, prompts, formula, stop, ("pocket-toxicity", "toxic"), report)
        for formula in formulas
    )
    assert union < 0.6 * bare
    assert guided < union


def test_two_adapters_of_one_base_detoxify_and_swapped_they_make_toxic(
    pocket: Engine, report: Report
) -> None:
    draw = random.Random(2)
    prompts = [f"Person 1: {conversations.message(draw)}\nPerson 2:" for _ in range(2 * PROMPTS)]
    formulas = ("M", "polite", "rude", "M + 1.5*(polite - rude)", "M - 1.5*(polite - rude)")
    stop = Stop(32, ("\n", "Person 1:"))
    bare, polite, rude, steered, poisoned = (
        _mean(pocket, prompts, formula, stop, ("pocket-toxicity", "toxic"), report)
        for formula in formulas
    )
    assert steered < 0.2 * bare
    assert polite < 0.6 * bare
    assert bare < rude
    assert bare < poisoned


def test_sentiment_rises_monotonically_with_the_strength_of_the_positive_prompt(
    pocket: Engine, report: Report
) -> None:
    draw = random.Random(3)
    prompts = [reviews.opening(draw) for _ in range(2 * PROMPTS)]
    means = [
        _mean(
            pocket,
            prompts,
            f"M + {strength}*(positive - M)",
            Stop(48, ("\n",)),
            ("pocket-sentiment", "positive"),
            report,
        )
        for strength in (0, 0.5, 1, 1.5)
    ]
    assert means == sorted(means)
    assert len(set(means)) == len(means)


def test_a_vector_moves_the_tone_by_its_strength_and_by_a_factor_outside_the_term(
    pocket: Engine, report: Report, tmp_path: Path
) -> None:
    file = tmp_path / "happy.gguf"
    train_vector(VectorSettings("pocket", "You are very happy.", "You are rude and sad.")).save(
        file
    )
    vectors = {
        name: Prompted(vectors={str(file): strength})
        for name, strength in {"sad": -2, "half": 1, "happy": 2}.items()
    }
    draw = random.Random(4)
    prompts = [chats.question(draw) for _ in range(2 * PROMPTS)]
    lexicon, means = SentimentIntensityAnalyzer(), {}
    for formula in ("sad", "M", "half", "happy", "M + 2*(half - M)"):
        texts = speak(pocket, prompts, formula, vectors, Stop(40))
        means[formula] = statistics.mean(lexicon.polarity_scores(one)["compound"] for one in texts)
        report(f"{formula:<36} VADER {means[formula]:+.3f}")
    assert means["sad"] < means["half"] < means["happy"]
    assert means["happy"] > means["M"] + 0.1
    assert means["M + 2*(half - M)"] > means["M"] + 0.05


def _mean(
    engine: Engine,
    prompts: Sequence[str],
    formula: str,
    stop: Stop,
    judge: tuple[str, str],
    report: Report,
) -> float:
    """The mean of an attribute over a formula's texts, reported beside an independent lexicon."""
    texts = speak(engine, prompts, formula, PLAIN, stop)
    mean = statistics.mean(attribute(texts, *judge))
    lexicon = SentimentIntensityAnalyzer()
    vader = statistics.mean(lexicon.polarity_scores(text)["compound"] for text in texts)
    report(f"{formula:<36} {judge[1]} {mean:.4f}  VADER {vader:+.3f}")
    return mean


def test_an_attribute_follows_its_factor_along_the_papers_third_curve(report: Report) -> None:
    (measured,) = evaluate_attributes(
        AttributesConfig(only=(3,), n=24, max_tokens=20, seed=8)
    ).curves
    heights = [height.mean for height, _ in measured.points]
    report(f"sports by λ₃: {', '.join(f'{height:.2f}' for height in heights)}")
    assert spearman(measured.curve.values, heights) >= 0.9
    assert heights[-1] > heights[0] + 0.15
