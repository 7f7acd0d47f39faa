"""`PYTHONPATH=tests python -m support.architectures [name …]`, which is `make models`.

Load each model from memory and from a directory, and compare it with transformers' uncached logits.
Without names, all architectures are tested and docs/reference/models.md is written.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from support.architectures.judge import Verdict, judge, judge_whole, largest
from support.architectures.models import CLOSE, build, endless, expected, names
from support.architectures.page import PAGE, Row, page
from support.architectures.tables import ABOVE, REMARKS
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from marith.errors import ModelError

IN_MEMORY = "loaded from memory, because transformers does not load what it saved"


def tried(name: str) -> Row:
    """Test an architecture, and return its row."""
    try:
        model = build(name)
    except Exception as error:  # transformers rejects the sizes, or lacks a library
        return Row(name, "not built", note=_reason(error))
    try:
        verdicts, remark = _verdicts(model)
    except ModelError as error:
        return Row(name, "refused", note=_reason(error))
    except Exception as error:
        return Row(name, "fails", note=f"{type(error).__name__}: {_reason(error)}")
    kinds, last = dict.fromkeys(verdict.kind for verdict in verdicts), verdicts[-1]
    said = last.said.partition("slower: ")[2]
    notes = [note for note in (said, remark, REMARKS.get(name, "")) if note]
    worst = largest(verdict.worst for verdict in verdicts)
    offered = last.lora, last.vectors, last.early_exit
    return Row(name, " or ".join(kinds), worst, *offered, "; ".join(notes))


def right(row: Row) -> bool:
    """Return True if a row has the runner of the tables and a small difference."""
    above = row.worst is not None and not row.worst < CLOSE
    bounded = row.worst is None or row.worst < 10 * CLOSE
    return expected(row.name) == row.kind and above == (row.name in ABOVE) and bounded


def _verdicts(model: Any) -> tuple[list[Verdict], str]:
    """Return the verdicts from memory and from a directory, and a remark."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        endless().save_pretrained(folder)
        try:
            loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        except Exception:
            return [judge_whole(model)], IN_MEMORY
        return [judge(model, runs=1), judge_whole(loaded, folder)], ""


def _reason(error: Exception) -> str:
    """Return the first line of an error, or two if the first ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def main(chosen: Sequence[str]) -> int:
    """Test architectures, print a line for each, and return the number of wrong lines."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    rows = []
    for name in chosen or names():
        started = time.perf_counter()
        rows.append(row := tried(name))
        seconds = time.perf_counter() - started
        mark = "ok" if right(row) else "WRONG"
        print(f"{mark:5} {name:32} {seconds:5.1f} s  {row}", flush=True)
    if not chosen:
        PAGE.write_text(page(rows), encoding="utf-8")
    return sum(not right(row) for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
