"""The command line, `marith`: its commands by what they do."""

from marith.cli import speaking, timing
from marith.cli.shared import app

__all__ = ["app", "speaking", "timing"]
