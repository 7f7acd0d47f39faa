"""Traces name the terms of a formula, and do not have their texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from langchain_marith import ChatMarith, MarithLLM

SECRET = "You are an angry chef."
FORMULA = f'M + 0.3*chef - 0.1*prompted("{SECRET}")'


class WholeTracer(BaseTracer):
    """Keeps each run as it ends, with all that LangChain's own tracers send."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    def _persist_run(self, run: Run) -> None:
        self.ended.append(run.model_dump_json())


@pytest.mark.parametrize("kind", [ChatMarith, MarithLLM])
@pytest.mark.parametrize("of_call", [False, True])
def test_a_trace_contains_no_text_of_a_term(tiny_dir: str, kind: Any, of_call: bool) -> None:
    """Neither of a term, nor of the formula, nor of what is hidden from a term."""
    tracer = WholeTracer()
    texts: dict[str, Any] = {
        "formula": FORMULA, "terms": {"chef": SECRET}, "faithful_to": "A secret.*",
    }  # fmt: skip
    model = kind(model=tiny_dir, **({"faithful_to": "x"} if of_call else texts), faithful=0.5)
    asked = {"max_tokens": 2, "logprobs": True, "inspect": True, **(texts if of_call else {})}
    model.invoke("k", {"callbacks": [tracer]}, **asked)
    [*model.stream("k", {"callbacks": [tracer]}, **asked)]
    assert SECRET not in str(model._identifying_params) + json.dumps(model._serialized)
    assert len(tracer.ended) == 2
    for told in tracer.ended:
        assert '"chef"' in told
        assert "0.3*chef" in told
        assert '"inspection"' in told
        assert SECRET not in told
        assert "A secret" not in told


def test_cached_answers_of_two_patterns_are_kept_apart(tiny_dir: str) -> None:
    one, other = (
        ChatMarith(model=tiny_dir, faithful=0.5, faithful_to=pattern)
        for pattern in ("<a>.*", "<b>.*")
    )
    assert one._get_llm_string() != other._get_llm_string()
