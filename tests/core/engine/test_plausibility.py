"""Implausible texts are reported: in the statistics, in the log, and in inspections."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.step_tensors import Waits, watch_steps

import marith
from marith.engine import prepare
from marith.engine.jobs import plausibility

TERMS = {
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "happy": "You are a very happy and enthusiastic assistant.",
    "toxic": "You are rude.",
}
PROMPT = "What do you know about bees?"
LOST = "1.5*formal - 0.5*M - 0.9*union(toxic, M)"


@pytest.fixture(autouse=True)
def _unsaid() -> Iterator[None]:
    plausibility._warn_once.cache_clear()
    prepare._bound.cache_clear()
    yield
    plausibility._warn_once.cache_clear()


def told(formula: str, **options: Any) -> marith.Completion:
    engine = marith.Engine.shared("pocket")
    asked = {"temperature": 0, "max_tokens": 24, **options}
    return engine.generate(PROMPT, formula, TERMS, **asked)


def inspected(formula: str, tokens: list[int]) -> marith.Inspection:
    return marith.inspect(marith.Engine.shared("pocket"), PROMPT, tokens, formula, TERMS)


@pytest.mark.parametrize("formula", ["10*happy - 9*M", LOST])
def test_an_implausible_text_is_reported_once(
    formula: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "marith"):
        assert told(formula).stats.implausible > 0.5
        told(formula, max_tokens=11)  # another share, and no second record
    told_before, record = caplog.records  # the factors alone, before there was a text
    assert "texts often become nonsense" in told_before.getMessage()
    message = record.getMessage()
    assert message.startswith("most tokens of a text are implausible to every term of ")
    assert "marith.explain" in message
    assert "enthusiastic" not in message


@pytest.mark.parametrize(
    "formula",
    [
        "M",
        "0.5*M + 0.5*happy",
        "2*formal - M",
        "M - 0.96*union(toxic, M)",
        "2*formal - M - 24*relu(toxic - M)",
        "10*happy.min_p(0.1) - 9*M",
    ],
)
def test_a_text_that_one_term_finds_plausible_is_not_reported(
    formula: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "marith"):
        assert told(formula).stats.implausible <= 0.25
    assert not caplog.records


@pytest.mark.parametrize("formula", ["10*happy - 9*M", "2*formal - M"])
def test_drafts_do_not_change_the_number_of_implausible_tokens(formula: str) -> None:
    plain, drafted = told(formula), told(formula, speculation="auto")
    assert plain.tokens == drafted.tokens
    assert plain.stats.implausible == drafted.stats.implausible


def test_a_step_on_a_device_counts_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    here = told("10*happy - 9*M")
    watch_steps(monkeypatch, Waits)
    there = told("10*happy - 9*M")
    assert there.tokens == here.tokens
    assert there.stats.implausible == here.stats.implausible > 0.5


def test_tokens_that_a_ban_took_back_do_not_count() -> None:
    banned = told("2*formal - M", ban=marith.Ban(["bees", "the"]))
    assert banned.stats.rewinds
    assert banned.stats.implausible <= 0.25


@pytest.mark.parametrize("formula", ["10*happy - 9*M", "2*formal - M"])
def test_an_inspection_marks_implausible_tokens(formula: str) -> None:
    answer = told(formula)
    inspection = inspected(formula, answer.tokens)
    places = [p.place for p in inspection.implausible if p.place < len(answer.tokens)]
    assert len(places) / len(answer.tokens) == pytest.approx(answer.stats.implausible, abs=0.01)
