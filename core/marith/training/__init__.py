"""How is a classifier that guides made? It learns to judge every prefix of a text (FUDGE)."""

from __future__ import annotations

from marith.training.loop import Step, train
from marith.training.report import Line, Report
from marith.training.settings import Settings

__all__ = ["Line", "Report", "Settings", "Step", "train"]
