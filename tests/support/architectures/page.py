"""docs/reference/models.md: which architectures there are, and how marith reads each."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from support.architectures.models import CLOSE, KINDS
from support.architectures.tables import VARIANTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "models.md"
_FLAGS = re.compile(r"\b(?:avx|amx|fma|bf16|f16c|asimd|sve)\w*")
_LONGEST = 200  # characters of a reason
MEANINGS = {
    "cached": "keys and values are kept by text, and all texts of a step share one pass",
    "states": "each text has a cache of transformers' own; a token costs one token, in a pass that "
    "texts share where the model's code can",
    "uncached": "every token reads the whole text anew, and loading warns with the reason",
    "refused": "loading ends in a ModelError",
    "fails": "loading ends in another error",
    "not built": "no small model could be made to try it, for the reason that stands there",
}
INTRODUCTION = """\
# Models

*This page is written by `make models`, which takes five minutes.*

Every architecture that transformers lists as a causal language model, and some of its variants,
as a tiny model with random weights.

{counts}

| runner | what it means | architectures | variants |
| --- | --- | --- | --- |
{kinds}

Uncached are {uncached}. Refused are {refused}.

marith holds no list of names. What decides is the kinds of a model's layers and a comparison when
it is loaded: cached passes against the model's own without a cache. An architecture that is not
here is tried in the same way.

*Largest difference* is the largest distance in nats between a log-probability from marith and the
one that transformers computes for the whole text without a cache, in float32. Compared are: four
requests beside each other with a formula of two terms, without drafts, with drafts and with a
plan; the next token's distribution; the score of a given text; prompts of unequal length side by
side, the longest longer than every window; 1 to 5 drafted tokens that are taken back; a second
turn; a text with a random LoRA beside one without; and what a middle layer says. Models are loaded
from a directory and from memory. The bound is {close:g}.

*LoRA* and *early exit* say whether
[`prompted(adapter=…)` and `prompted(exit_layer=…)`](formula_language.md) work. Tiny random models
show whether the code is right. They say nothing about quality or speed.

Made with transformers {transformers}, torch {torch} and Python {python} on one core of a processor
with {flags}.
"""


class Row(NamedTuple):
    """A line of the table."""

    name: str
    kind: str
    worst: float | None = None
    lora: bool | None = None
    early_exit: bool | None = None
    note: str = ""

    def __str__(self) -> str:
        marks = [word for word, has in (("LoRA", self.lora), ("exits", self.early_exit)) if has]
        size = "" if self.worst is None else f"{self.worst:.1e}"
        return f"{self.kind:9} {size:8} {' '.join(marks):11} {self.note}".rstrip()

    @property
    def cells(self) -> list[str]:
        """As markdown."""
        worst = "" if self.worst is None else f"{self.worst:.1e}"
        marks = ["" if has is None else "yes" if has else "no" for has in self[3:5]]
        note = self.note if len(self.note) <= _LONGEST else f"{self.note[:_LONGEST].rstrip()} …"
        return [self.name, self.kind, worst, *marks, note.replace("|", "\\|").replace("*", "\\*")]


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    kinds = [_line([kind, MEANINGS[kind], *_numbers(rows, kind)]) for kind in KINDS]
    introduction = INTRODUCTION.format(
        counts=summary(rows),
        close=CLOSE,
        kinds="\n".join(kinds),
        uncached=_names(rows, "uncached"),
        refused=_names(rows, "refused"),
        transformers=transformers.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        flags=", ".join(flags()) or platform.machine(),
    )
    head = [_line(["architecture", "runner", "largest difference", "LoRA", "early exit", "note"])]
    lines = [*head, "| --- " * 6 + "|", *(_line(row.cells) for row in rows)]
    return "\n".join([introduction, *lines]) + "\n"


def summary(rows: Sequence[Row]) -> str:
    """The counts of all, in two sentences."""
    plain = [row for row in rows if row.name not in VARIANTS]
    count = Counter(row.kind for row in plain)
    kept = count["cached"] + count["states"]
    measured = [row for row in rows if row.worst is not None]
    far = [row.name for row in measured if not row.worst < CLOSE]
    beyond = f"; beyond it is {', '.join(far)}, for the reason in its line" if far else ""
    return (
        f"Of {len(plain)} architectures {kept} are read with a cache ({count['cached']} in shared "
        f"passes), {count['uncached']} without; {count['refused']} are refused. Of {len(measured)} "
        f"models measured {len(measured) - len(far)} are within {CLOSE:g} nats{beyond}."
    )


def flags() -> list[str]:
    """What the processor offers that changes rounding, where the system says it."""
    info = Path("/proc/cpuinfo")
    return sorted(set(_FLAGS.findall(info.read_text()))) if info.is_file() else []


def _numbers(rows: Sequence[Row], kind: str) -> list[str]:
    count = Counter(row.name in VARIANTS for row in rows if row.kind == kind)
    return [str(count[False]), str(count[True])]


def _names(rows: Sequence[Row], kind: str) -> str:
    return ", ".join(row.name for row in rows if row.kind == kind) or "none"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
