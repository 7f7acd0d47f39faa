"""Every check of the conformance suite fails for an LLM that is wrong in what it checks."""

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
from llamaindex_marith.testing.tooling import cores_own

FAULTS = (conformance_faults, conformance_impostors, conformance_misreadings)
NAMES = [f"{fault.__name__}-{check.removeprefix('test_')}" for fault, check, _ in BROKEN]
FAILED = (Exception, pytest.fail.Exception)  # to be skipped is not to fail


def subject(fault: type, thinker: str) -> Any:
    """What the suite asks of a broken LLM: the same as of a sound one."""

    class Ours(Pocket):
        patience = 2.0

        def make(self, **options: Any) -> Any:
            return fault(**{"model": self.model, **options})

    suite = fault() if issubclass(fault, Pocket) else Ours()
    suite.thinker = thinker
    return suite


async def raised(check: Callable[..., Any], parameters: dict[str, Any]) -> BaseException | None:
    """What a check raises, whatever it is."""
    try:
        result = check(**parameters)
        if inspect.isawaitable(result):
            await result
    except BaseException as error:
        return error
    return None


@cores_own
@pytest.mark.parametrize(("fault", "check", "parameters"), BROKEN, ids=NAMES)
async def test_a_fault_is_seen(
    fault: type, check: str, parameters: dict[str, Any], thinking_dir: str
) -> None:
    method = getattr(subject(fault, thinking_dir), check)
    inspect.signature(method).bind(**parameters)
    assert isinstance(await raised(method, parameters), FAILED)


def test_every_check_is_seen_to_fail() -> None:
    known = {name for names in checks().values() for name in names}
    assert {check for _, check, _ in BROKEN} == known


def test_every_fault_is_tried() -> None:
    tried = {fault for fault, _, _ in BROKEN}
    for module in FAULTS:
        faults = {f for f in vars(module).values() if inspect.isclass(f)}
        assert {fault for fault in faults if fault.__module__ == module.__name__} <= tried
