"""What does marith do for an application? One screen of answers, measured, in a few seconds.

- `frameworks`: the demonstration's answers by each framework that is installed.
- `measured_replies`: replies to the messages of `marith eval toxicity`.
- `one_screen`: prints the demonstration: each part as soon as its answers are there.
- `printed_lines`: where the demonstration prints: answers on stdout, progress on stderr.
- `shown_requests`: what the demonstration asks: prompts.
"""

from marith.demo.one_screen import run

__all__ = ["run"]
