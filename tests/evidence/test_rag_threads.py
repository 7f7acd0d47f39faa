"""An embedding model and an engine in one process, beside busy processes: neither starves."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support import rag_times

from marith.openmp import CHOICES

MOST = 2.0  # a query, as a multiple of its embedding and its answer alone


def test_a_query_takes_hardly_longer_than_its_embedding_and_its_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    kept |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    kept.pop("OMP_NUM_THREADS", None)
    printed = subprocess.check_output([sys.executable, rag_times.__file__], env=kept, text=True)
    found = json.loads(printed.splitlines()[-1])
    for count, times in found.items():
        parts = times["embedding"] + times["answer"]
        with capsys.disabled():
            print(f"\nbeside {count}:", {name: f"{value:.2f} s" for name, value in times.items()})
        assert times["query"] <= MOST * parts, count
