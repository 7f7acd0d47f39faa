"""Write docs/reference/models.md: every architecture, and how marith runs it."""

from __future__ import annotations

import platform
import re
import textwrap
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
_EXCEPTION = re.compile(r" \(\w+Error: .*\)")
_LONGEST = 120  # characters of a reason
# Long reasons, by their beginning or a part, with shorter ones.
_SHORTER = {
    "is not a causal language model": "it reads later tokens too",
    "has no argument for a cache": "its code has no argument for a cache",
    "`mamba2_selective_state_update`": "transformers ignores `time_step_min` for a single token",
    "Multiple valid text configs": "transformers finds several text configurations",
    "requires the timm library": "transformers needs timm",
}
MEANINGS = {
    "cached": "keys and values are cached, and all texts of a step share one forward pass",
    "states": "each text has a cache of transformers; texts share a pass if the model's code can",
    "uncached": "every token reads the whole text again, and loading warns with the reason",
    "refused": "loading raises ModelError",
    "fails": "loading raises another error",
    "not built": "transformers could not make a small model",
}
INTRODUCTION = """\
# Models

*This page is written by `make models`, which takes five minutes.*

It lists every architecture that transformers calls a causal language model, and some variants. Each
is tested as a tiny model with random weights, which shows if the code is right. Quality and speed
are not tested.

{counts}

| runner | what it means | architectures | variants |
| --- | --- | --- | --- |
{kinds}

marith has no list of names. The kinds of a model's layers decide, and a comparison when it is
loaded: cached passes against the model without a cache. Other architectures are treated in the same
way.

A *difference* is the largest difference in nats between a log-probability of marith and of
transformers without a cache, in float32. The bound is {close:g}. The tests compare four concurrent
requests for a formula of two terms (without drafts, with drafts, with a plan), the next token's
distribution, scores, prompts of unequal length, 1 to 5 refused drafts, a second turn, LoRA and a
control vector next to the bare model, and a middle layer. The longest prompt is longer than every
window. Models are loaded from a directory and from memory.

{lora}
{vectors}
[`prompted(exit_layer=…)`](formula_language.md), an early exit, works with all models but those that
an asterisk marks.

Made with transformers {transformers}, torch {torch} and Python {python} on one core of a processor
with {flags}.

{notes}
"""


class Row(NamedTuple):
    """A model as it was measured, with its note."""

    name: str
    kind: str
    worst: float | None = None
    lora: bool | None = None
    vectors: bool | None = None
    early_exit: bool | None = None
    note: str = ""

    def __str__(self) -> str:
        offered = ("LoRA", self.lora), ("vectors", self.vectors), ("exits", self.early_exit)
        marks = [word for word, has in offered if has]
        size = "" if self.worst is None else f"{self.worst:.1e}"
        return f"{self.kind:9} {size:8} {' '.join(marks):18} {self.note}".rstrip()

    @property
    def reason(self) -> str:
        """The note, shortened."""
        shorter = [short for part, short in _SHORTER.items() if part in self.note]
        note = shorter[0] if shorter else _EXCEPTION.sub("", self.note)
        return note if len(note) <= _LONGEST else f"{note[:_LONGEST].rstrip()} …"


def page(rows: Sequence[Row]) -> str:
    """Return the whole page."""
    kinds = [_line([kind, MEANINGS[kind], *_numbers(rows, kind)]) for kind in KINDS]
    introduction = INTRODUCTION.format(
        counts=summary(rows),
        close=CLOSE,
        kinds="\n".join(kinds),
        lora=_works(rows, "adapter", "a LoRA, works"),
        vectors=_works(rows, "vectors", "control vectors, work"),
        notes=_notes(rows),
        transformers=transformers.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        flags=", ".join(flags()) or platform.machine(),
    )
    kinds = dict.fromkeys(row.kind for row in sorted(rows, key=lambda row: KINDS.index(row.kind)))
    return "\n".join([introduction, *(models_of(rows, kind) for kind in kinds)])


def models_of(rows: Sequence[Row], kind: str) -> str:
    """Return the models with a runner, and the largest difference that was measured among them."""
    some = [row for row in rows if row.kind == kind]
    within = [row.worst for row in some if row.worst is not None and row.worst < CLOSE]
    largest = f", all differences at most {max(within):.1e}" if within else ""
    beyond = [f"`{row.name}` {row.worst:.1e}" for row in some if not (row.worst or 0) < CLOSE]
    largest += f" but {', '.join(beyond)}" if beyond else ""
    names = [f"{row.name}\\*" if row.early_exit is False else row.name for row in some]
    return f"**{kind}**{largest}:\n\n{textwrap.fill('; '.join(names), 100)}\n"


def summary(rows: Sequence[Row]) -> str:
    """Return the counts of all rows, in three sentences."""
    plain = [row for row in rows if row.name not in VARIANTS]
    count = Counter(row.kind for row in plain)
    cached = count["cached"] + count["states"]
    measured = [row for row in rows if row.worst is not None]
    far = [row.name for row in measured if not row.worst < CLOSE]
    beyond = f"; {_quoted(far)} is not, for the reason below" if far else ""
    return (
        f"Of {len(plain)} architectures {cached} run with a cache ({count['cached']} in shared "
        f"passes) and {count['uncached']} without; {count['refused']} are refused. Of "
        f"{len(measured)} measured models {len(measured) - len(far)} are within {CLOSE:g} "
        f"nats{beyond}."
    )


def flags() -> list[str]:
    """Return the processor's instruction sets that change rounding, if the system lists them."""
    info = Path("/proc/cpuinfo")
    return sorted(set(_FLAGS.findall(info.read_text()))) if info.is_file() else []


def _numbers(rows: Sequence[Row], kind: str) -> list[str]:
    count = Counter(row.name in VARIANTS for row in rows if row.kind == kind)
    return [str(count[False]), str(count[True])]


def _works(rows: Sequence[Row], argument: str, what: str) -> str:
    """Return a sentence that says which models take an argument of `prompted`."""
    taken = {row.name: row.lora if argument == "adapter" else row.vectors for row in rows}
    without = [name for name, takes in taken.items() if takes is False]
    wrong = f"all but {_quoted(without)}" if without else "all of them"
    sentence = f"[`prompted({argument}=…)`](formula_language.md), {what} with {wrong}."
    return textwrap.fill(sentence, 100, break_on_hyphens=False)


def _notes(rows: Sequence[Row]) -> str:
    """Return a list of the reasons, each with the names of its rows."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.note:
            names.setdefault((row.kind, row.reason), []).append(row.name)
    notes = [f"- {_quoted(each)} ({kind}): {reason}" for (kind, reason), each in names.items()]
    return "\n".join(sorted(notes)).replace("|", "\\|").replace("*", "\\*")


def _quoted(names: Sequence[str]) -> str:
    """Return names for a sentence. Some of them have several words."""
    return ", ".join(f"`{name}`" for name in names)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
