"""One call of a model: its options with those of the call over them, and what it has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import marith
from llamaindex_marith.lens import RETRIEVED
from llamaindex_marith.tools import to_tools

_TOOLING = ("tools", "tool_choice", "tool_required", "allow_parallel_tool_calls", "strict")
_ANSWERING = ("grammar", "logprobs")


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call, and what its answer may be."""

    options: marith.Options
    grammar: marith.Grammar | None = None
    tools: marith.Tools | None = None
    logprobs: int | None = None
    retrieved: bool = False  # whether the answer is faithful to something in its prompt

    @classmethod
    def of(
        cls,
        model: marith.Options,
        grammar: marith.Grammar | None,
        options: Mapping[str, Any],
        in_chat: bool,
    ) -> Asked:
        """A model's options, and its `grammar`, with the options of one call over them.

        Raises ValueError for an option that does not exist, before anything loads.
        """
        own = (*_ANSWERING, *(_TOOLING if in_chat else ()))
        said = {name: options[name] for name in own if name in options}
        chosen = model.over({name: options[name] for name in options if name not in said})
        if chosen.faithful and chosen.faithful_to is None:
            chosen = chosen.over({"faithful_to": RETRIEVED})
        tooling = {name: said[name] for name in _TOOLING if said.get(name) is not None}
        tools = to_tools(tooling.pop("tools", None), **tooling)
        return cls(chosen, said.get("grammar", grammar), tools, said.get("logprobs"))

    def submit(self, prompt: Sequence[dict[str, Any]]) -> marith.Ticket:
        """Start on the engine. Blocks while weights load, or while the engine is busy."""
        return self.options.submit(prompt, self.grammar, self.tools, self.logprobs)
