"""How OpenMP's threads wait: chosen when marith is imported before torch, and said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from marith import Engine, MarithError, Options
from marith.openmp import CHOICES, SPINS

CHOSEN = f"import os; print([os.environ.get(name) for name in {CHOICES}])"


def printed(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    kept |= {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    return subprocess.check_output([sys.executable, "-c", code], env=kept, text=True).strip()


def test_spinning_is_bounded_where_nothing_is_chosen() -> None:
    assert printed(f"import marith; {CHOSEN}") == str([None, str(SPINS)])


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_environment_chooses_stays(name: str) -> None:
    values = [{name: "ACTIVE"}.get(each) for each in CHOICES]
    assert printed(f"import marith; {CHOSEN}", **{name: "ACTIVE"}) == str(values)


@pytest.mark.parametrize(
    ("first", "long"), [("import marith, torch", False), ("import torch, marith", True)]
)
def test_an_earlier_import_of_torch_is_detected(first: str, long: bool) -> None:
    code = f"{first}; from marith.openmp import TORCH_SPINS_LONG; print(TORCH_SPINS_LONG)"
    assert printed(code) == str(long)


def test_a_number_of_threads_is_refused_with_the_environment_variable() -> None:
    with pytest.raises(MarithError, match="takes no 'n_threads'; set OMP_NUM_THREADS"):
        Engine.load("pocket", n_threads=2)
    with pytest.raises(ValidationError, match=r"takes no option 'threads'; set OMP_NUM_THREADS"):
        Options(threads=2)
