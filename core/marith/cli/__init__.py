"""The command line, `marith`: its commands by what they do."""

from marith.cli import comparing, evaluating, speaking, timing, training, tuning
from marith.cli.shared import app

__all__ = ["app", "comparing", "evaluating", "speaking", "timing", "training", "tuning"]
