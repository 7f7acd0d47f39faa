"""Build small models of every causal architecture of transformers, and test marith with them."""

from __future__ import annotations

from support.architectures.judge import Verdict, judge, judge_whole
from support.architectures.models import CLOSE, build, endless, expected, names, uncached, words
from support.architectures.sizes import COMMON
from support.architectures.tables import ABOVE, BERT, LLAMA, UNCACHED, VARIANTS

__all__ = [
    "ABOVE",
    "BERT",
    "CLOSE",
    "COMMON",
    "LLAMA",
    "UNCACHED",
    "VARIANTS",
    "Verdict",
    "build",
    "endless",
    "expected",
    "judge",
    "judge_whole",
    "names",
    "uncached",
    "words",
]
