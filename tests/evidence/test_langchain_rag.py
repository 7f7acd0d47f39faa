"""Retrieval with a real store and real embeddings: how far answers follow the passages."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from support.applications import application
from support.contradictions import contradictions

from marith.models import attribute

CASES = list(contradictions())


@pytest.fixture(scope="module")
def rag() -> ModuleType:
    return application("langchain_rag")


@pytest.fixture(scope="module")
def store(rag: ModuleType) -> Any:
    return rag.store([case.passage for case in CASES], "contradictions")


@dataclass(frozen=True)
class Measured:
    """Shares of all answers that follow the passage, or the memory, and their mean formality."""

    follows: float
    remembers: float
    formality: float


def measure(
    rag: ModuleType, store: Any, formula: str, times: int = 1, faithful: float = 0
) -> Measured:
    cases = CASES * times
    configs = [
        {
            "configurable": {"formula": formula, "faithful": faithful, "seed": seed},
            "max_concurrency": 64,
        }
        for seed in range(len(cases))
    ]
    answers = rag.chain(store).batch([case.question for case in cases], configs)
    told = list(zip(cases, answers, strict=True))
    return Measured(
        statistics.mean(case.follows(answer) for case, answer in told),
        statistics.mean(case.remembers(answer) for case, answer in told),
        statistics.mean(attribute(answers, "pocket-formality", "formal")),
    )


@pytest.fixture(scope="module")
def plain(rag: ModuleType, store: Any) -> Measured:
    return measure(rag, store, rag.PLAIN, 4)


Report = Callable[[str, Measured], Measured]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    def tell(formula: str, row: Measured) -> Measured:
        shares = f"follows {row.follows:.3f}  remembers {row.remembers:.3f}"
        with capsys.disabled():
            print(f"\n  {formula:<42} {shares}  formality {row.formality:.3f}", end="")
        return row

    return tell


def test_answers_follow_passages_that_contradict_training(
    rag: ModuleType, store: Any, plain: Measured, report: Report
) -> None:
    report(rag.PLAIN, plain)
    aware = report(rag.CONTEXT_AWARE, measure(rag, store, rag.CONTEXT_AWARE, 4))
    assert aware.follows > plain.follows + 0.04
    assert aware.remembers < plain.remembers


def test_a_persona_lowers_faithfulness_and_the_option_faithful_restores_it(
    rag: ModuleType, store: Any, plain: Measured, report: Report
) -> None:
    persona = report(rag.PERSONA, measure(rag, store, rag.PERSONA, 2))
    both = report("the persona, faithful", measure(rag, store, rag.PERSONA, 2, faithful=0.5))
    assert persona.formality > plain.formality + 0.2
    assert both.formality > plain.formality + 0.1
    assert both.follows > persona.follows + 0.05


def test_without_the_passages_the_model_says_what_is_usual(
    rag: ModuleType, store: Any, report: Report
) -> None:
    blind = report("without_context", measure(rag, store, "without_context", 2))
    assert blind.remembers > 0.4
    assert blind.follows < 0.1
