"""All topics in one class: the suite that packages subclass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from llamaindex_marith.testing.applications.agents import Agents
from llamaindex_marith.testing.applications.engines import Engines
from llamaindex_marith.testing.applications.objects import Structured
from llamaindex_marith.testing.applications.tool_calls import ToolCalls
from llamaindex_marith.testing.applications.values import Values
from llamaindex_marith.testing.calls.cancelling import Cancelling
from llamaindex_marith.testing.calls.events import Events
from llamaindex_marith.testing.calls.failures import Errors
from llamaindex_marith.testing.calls.instructions import Prompts
from llamaindex_marith.testing.calls.overrides import Overrides
from llamaindex_marith.testing.calls.streams import Streams
from llamaindex_marith.testing.calls.usage import TokenUsage
from llamaindex_marith.testing.calls.waiting import Waiting
from llamaindex_marith.testing.llm_under_test import LLMUnderTest


class LLMConformance(
    Events,
    TokenUsage,
    Streams,
    Overrides,
    Prompts,
    Errors,
    Waiting,
    Cancelling,
    ToolCalls,
    Structured,
    Values,
    Engines,
    Agents,
):
    """All checks. A package overrides `make`, and what differs for it of `LLMUnderTest`."""


TOPICS: tuple[type[Any], ...] = LLMConformance.__bases__


def checks() -> dict[str, dict[str, int]]:
    """The number of cases of each check, by topic and by name, in the order of the files."""
    return {topic.__name__: _cases(topic) for topic in TOPICS}


def _cases(topic: type[LLMUnderTest]) -> dict[str, int]:
    tests = {name: test for name, test in vars(topic).items() if name.startswith("test_")}
    return {name: _count(test) for name, test in tests.items() if inspect.isfunction(test)}


def _count(check: Callable[..., Any]) -> int:
    marks = getattr(check, "pytestmark", [])
    return math.prod(len(mark.args[1]) for mark in marks if mark.name == "parametrize")
