"""Every check of the conformance suite fails for an LLM that has the fault it looks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import conformance_faults
import conformance_impostors
import conformance_misreadings
import pytest
from conformance_altered import BROKEN
from conformance_pocket import Pocket

from llamaindex_marith.testing.suite import checks
from llamaindex_marith.testing.tooling import ignore_core_deprecations

FAULTS = (conformance_faults, conformance_impostors, conformance_misreadings)
NAMES = [f"{fault.__name__}-{check.removeprefix('test_')}" for fault, check, _ in BROKEN]
FAILED = (Exception, pytest.fail.Exception)  # a skip is no failure


def suite_of(fault: type, reasoning_model: str) -> Any:
    """The suite for a faulty LLM, the same as for a correct one."""

    class Faulty(Pocket):
        patience = 2.0

        def make(self, **options: Any) -> Any:
            return fault(**{"model": self.model, **options})

    suite = fault() if issubclass(fault, Pocket) else Faulty()
    suite.reasoning_model = reasoning_model
    return suite


async def raised(check: Callable[..., Any], parameters: dict[str, Any]) -> BaseException | None:
    """What a check raises; None if it passes."""
    try:
        result = check(**parameters)
        if inspect.isawaitable(result):
            await result
    except BaseException as error:
        return error
    return None


@ignore_core_deprecations
@pytest.mark.parametrize(("fault", "check", "parameters"), BROKEN, ids=NAMES)
async def test_a_fault_is_seen(
    fault: type, check: str, parameters: dict[str, Any], thinking_dir: str
) -> None:
    method = getattr(suite_of(fault, thinking_dir), check)
    inspect.signature(method).bind(**parameters)
    assert isinstance(await raised(method, parameters), FAILED)


def test_every_check_is_seen_to_fail() -> None:
    names = {name for topic in checks().values() for name in topic}
    assert {check for _, check, _ in BROKEN} == names


def test_every_fault_is_tried() -> None:
    tried = {fault for fault, _, _ in BROKEN}
    for module in FAULTS:
        faults = {f for f in vars(module).values() if inspect.isclass(f)}
        assert {fault for fault in faults if fault.__module__ == module.__name__} <= tried
