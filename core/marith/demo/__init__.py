"""The demonstration of `marith demo`: one screen of measured answers, in a few seconds.

- `frameworks`: finds the installed frameworks, and answers through them.
- `measured_replies`: generates and measures replies to the messages of `marith eval toxicity`.
- `one_screen`: prints the demonstration, each part as soon as it is complete.
- `printed_lines`: prints answers to standard output and progress to standard error.
- `shown_requests`: the prompts, formulas and settings of the demonstration.
"""

from marith.demo.one_screen import run

__all__ = ["run"]
