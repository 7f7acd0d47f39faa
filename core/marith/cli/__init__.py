"""The command line, `marith`: its commands by what they do."""

from marith.cli import (
    comparison_commands,
    evaluation_commands,
    generation_commands,
    timing_commands,
    train_command,
    tune_command,
)
from marith.cli.help_pages import add_examples
from marith.cli.shared import app, evals

add_examples(app)
add_examples(evals, "eval ")

__all__ = [
    "app",
    "comparison_commands",
    "evaluation_commands",
    "generation_commands",
    "timing_commands",
    "train_command",
    "tune_command",
]
