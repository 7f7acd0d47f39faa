"""All topics in one class: the suite that packages subclass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from conformance.agents import Agents
from conformance.cancelling import Cancelling
from conformance.engines import Engines
from conformance.errors import Errors
from conformance.events import Events
from conformance.options import Options
from conformance.prompts import Prompts
from conformance.streams import Streams
from conformance.structured import Structured
from conformance.subject import Subject
from conformance.tools import Tools
from conformance.usage import Usage
from conformance.values import Values
from conformance.waiting import Waiting


class LLMConformance(
    Events,
    Usage,
    Streams,
    Options,
    Prompts,
    Errors,
    Waiting,
    Cancelling,
    Tools,
    Structured,
    Values,
    Engines,
    Agents,
):
    """Every check there is. A package overrides what `Subject` says, and `make` above all."""


TOPICS: tuple[type[Any], ...] = LLMConformance.__bases__


def checks() -> dict[str, dict[str, int]]:
    """How many cases each check has, by its topic and its name, in the order of the files."""
    return {topic.__name__: _cases(topic) for topic in TOPICS}


def _cases(topic: type[Subject]) -> dict[str, int]:
    tests = {name: test for name, test in vars(topic).items() if name.startswith("test_")}
    return {name: _count(test) for name, test in tests.items() if inspect.isfunction(test)}


def _count(check: Callable[..., Any]) -> int:
    marks = getattr(check, "pytestmark", [])
    return math.prod(len(mark.args[1]) for mark in marks if mark.name == "parametrize")
