"""Warnings about a base model: coarse rounding, a missing chat template, or one without tools."""

from __future__ import annotations

import logging
from functools import lru_cache

from marith.errors import shown
from marith.formula.meaning.amplification import amplification
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import without_texts
from marith.scoring import notices
from marith.scoring.weights.checkpoint import Checkpoint

_log = logging.getLogger(__name__)
# A formula that makes rounding errors at least this number of times larger gives a warning.
_MUCH = 10
# Results are cached, because many requests have the same formula.
_amplification = lru_cache(maxsize=64)(amplification)


class ModelWarnings:
    """The warnings about one base model. Keeps state: most warnings are said once."""

    def __init__(self, base: Checkpoint) -> None:
        self._name, self._vocabulary = base.name, base.vocabulary
        self._rounding = base.rounds_coarsely
        # This is the largest amplification that a warning has named.
        self._warned = 0.0
        self._warned_of: set[str] = set()

    def of_rounding(self, formula: Formula) -> None:
        """Warn if a formula enlarges the rounding errors of the base model.

        The first formula that enlarges them ten times or more gives a warning. After that, a
        formula gives a warning if it enlarges them at least ten times as much as the formula of the
        last warning. docs/how-to/few_bits.md says how far such formulas are off.
        """
        if self._rounding is None:
            return
        times = _amplification(formula)
        if times < _MUCH * max(1.0, self._warned):
            return
        self._warned = times
        what, instead = self._rounding
        notices.warn(
            f"{shown(without_texts(formula))} enlarges rounding {times:.0f} times, and {what}: its "
            f"distribution may be far from the exact one; {instead}"
        )

    def of_reasoning(self) -> str:
        """Return a sentence that the base model has no marks of reasoning, and warn once."""
        problem = f"the chat template of {self._name!r} has no marks of reasoning"
        warning = f"{problem}, so max_reasoning_tokens has no effect"
        self.once("reasoning", warning)
        return warning

    def of_tools(self) -> None:
        """Warn once if the base model's chat template does not list tools."""
        vocabulary = self._vocabulary
        if vocabulary.tool_format.offers:
            return
        what = f"the chat template of {self._name!r} lists no tools"
        if not vocabulary.has_chat_template:
            what = f"{self._name!r} has no chat template"
        self.once(
            "tools",
            f"{what}, so they are listed in the system prompt, and with tool_choice='auto' such a "
            "model may call none or repeat a call; write tool_choice='any' or the name of a tool, "
            "or take a model that was trained to call tools",
        )

    def once(self, subject: str, message: str) -> None:
        """Log a warning, unless there was a warning about the subject before."""
        if subject not in self._warned_of:
            self._warned_of.add(subject)
            _log.warning("%s", message)

    def of_template(self) -> None:
        """Warn once if the base model has no chat template."""
        if self._vocabulary.has_chat_template:
            return
        self.once(
            "template",
            f"{self._name!r} has no chat template: system prompts and messages are "
            "plain text, with `User: …` and `Assistant: …` for several messages, and a base model "
            "continues such a text instead of answering it; take a model that was trained for "
            "chats (many have -Instruct or -it in their name), or write "
            'template="plain" for terms that should read plain text',
        )
