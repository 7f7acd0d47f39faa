"""The command line, `marith`: its commands by what they do."""

from marith.cli import (
    comparison_commands,
    evaluation_commands,
    formula_commands,
    generate_command,
    timing_commands,
    train_command,
    tune_command,
)
from marith.cli.help_pages import complete_help
from marith.cli.listing import listing_commands
from marith.cli.shared import app, evals

complete_help(app)
complete_help(evals, "eval")

__all__ = [
    "app",
    "comparison_commands",
    "evaluation_commands",
    "formula_commands",
    "generate_command",
    "listing_commands",
    "timing_commands",
    "train_command",
    "tune_command",
]
