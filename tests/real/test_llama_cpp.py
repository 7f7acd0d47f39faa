"""The same models computed by llama.cpp, beside torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marith import Engine, Sampling, Stop

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")

QUESTIONS = ["What is the moon?", "What does a baker do?", "Why is the sky blue?"]
# Total variation of the next token: llama.cpp rounds what it multiplies to 8 bits.
FORMULAS = {"M": 0.1, "1.5*formal - 0.5*M": 0.15}


@pytest.fixture(scope="module")
def by_llama_cpp(file: Path) -> Iterator[Engine]:
    with Engine.load(str(file), backend="llama.cpp") as loaded:
        yield loaded


@pytest.mark.parametrize("formula", FORMULAS)
def test_next_tokens_are_as_likely_as_by_torch(
    formula: str, engine: Engine, by_llama_cpp: Engine, terms: dict[str, str], timed: Any
) -> None:
    distances = []
    for question in QUESTIONS:
        text = engine.generate(question, formula, terms, Sampling(temperature=0), Stop(8)).tokens
        for at in range(len(text)):
            rows = [
                each.next_logprobs(question, formula, terms, text[:at]).exp()
                for each in (engine, by_llama_cpp)
            ]
            distances.append(float((rows[0] - rows[1]).abs().sum()) / 2)
    mean = sum(distances) / len(distances)
    timed(f"{formula}: total variation {mean:.3f} in the mean, {max(distances):.3f} at most")
    assert mean < FORMULAS[formula]
