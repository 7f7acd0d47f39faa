"""A model of 1.5 billion parameters by llama.cpp, with `--large`: personas, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from marith import Engine, Options
from tools.real_models import QWEN

PIRATE = {"pirate": "You are a pirate and speak like a pirate."}
DEGREES = ("M", "M + 0.3*(pirate - M)", "M + 0.6*(pirate - M)", "pirate", "1.5*pirate - 0.5*M")
SPOKEN = ("arr", "ahoy", "matey", " ye ", "aye", "hearties", "landlubber")


@pytest.fixture(scope="module")
def larger(pytestconfig: pytest.Config, fetch: Any) -> Iterator[Engine]:
    if not pytestconfig.getoption("--large"):
        pytest.skip("a model of 1.1 GB is asked with `make real LARGE=1`")
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")
    with Engine.load(str(fetch(QWEN)), backend="llama.cpp") as loaded:
        yield loaded


def test_a_persona_is_heard_by_degrees(larger: Engine, timed: Any) -> None:
    texts = {}
    for formula in DEGREES:
        asked = Options(engine=larger, formula=formula, terms=PIRATE, temperature=0, max_tokens=40)
        texts[formula] = asked.submit("Tell me about the moon.").result().text
        timed(f"{formula:<22} {texts[formula]!r}")
    heard = {
        formula: any(word in text.lower() for word in SPOKEN) for formula, text in texts.items()
    }
    assert not heard["M"]
    assert heard["1.5*pirate - 0.5*M"]


def test_an_answer_keeps_to_a_passage(larger: Engine, timed: Any) -> None:
    prompt = "Context:\nUmeå is the capital of Japan.\n\nQuestion: Name the capital of Japan."
    for faithful in (0, 0.25):
        asked = Options(
            engine=larger, temperature=0, max_tokens=24, faithful=faithful,
            faithful_to=r"(?s)Context:\n(?P<context>.*?)\n\n",
        )  # fmt: skip
        text = asked.submit(prompt).result().text
        timed(f"faithful={faithful}: {text!r}")
    assert "Umeå" in text
