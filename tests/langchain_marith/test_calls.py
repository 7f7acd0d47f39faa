"""What a chat call costs its caller's thread, in calls of functions of this package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.tools import tool

import marith
from langchain_marith import ChatMarith
from marith.formula.text import syntax
from marith.request.forms import grammar

ROOT = Path(marith.__file__).parents[2]
MOST_CALLS, MOST_FILES = 500, 50


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return city


def calls_of(work: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and the name of every function of ours that some work calls in this thread."""
    seen: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            seen.append((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    home = [str(ROOT / part) for part in ("core/marith", "langchain_marith")]
    ours = [one for one in seen if one[0].startswith(tuple(home))]
    return [one for one in ours if not one[1].endswith(("<genexpr>", "<listcomp>", "<lambda>"))]


def test_a_chat_call_with_tools_finds_all_but_its_prompt_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = ChatMarith(max_tokens=4, temperature=0).bind_tools([weather], tool_choice="any")
    ask = lambda: list(chat.stream("What is the weather in Paris?"))  # noqa: E731
    ask()
    monkeypatch.setattr(syntax, "_tree", None)  # no text is parsed
    monkeypatch.setattr(grammar, "_MAKE", None)  # and no schema is read
    calls = calls_of(ask)
    assert len(calls) <= MOST_CALLS
    assert len({file for file, _ in calls}) <= MOST_FILES


def test_a_model_without_options_for_a_call_asks_with_its_own() -> None:
    chat = ChatMarith()
    assert chat.over({}) is chat
    assert chat.over({"seed": 1}) is not chat
    assert chat.over({}, stop=["x"]).stop == ["x"]
