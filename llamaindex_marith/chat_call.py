"""One call of a model: its options with those of the call over them, and what it has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from llama_index.core.tools.function_tool import sync_to_async
from pydantic import ValidationError

import marith
from llamaindex_marith.lens import RETRIEVED
from llamaindex_marith.tool_selection import to_tools

_TOOLING = ("tools", "tool_choice", "tool_required", "allow_parallel_tool_calls", "strict")
_ANSWERING = ("grammar", "logprobs")


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call, and what its answer may be."""

    options: marith.Options
    asked: Mapping[str, Any] = field(default_factory=dict)  # of a request, beside the options

    @classmethod
    def of(
        cls,
        model: marith.Options,
        held_to: marith.Grammar | None,
        options: Mapping[str, Any],
        in_chat: bool,
    ) -> Asked:
        """A model's options, and the grammar it is held to, with those of one call over them.

        Raises RequestError for an option that does not exist, before anything loads.
        """
        own = (*_ANSWERING, *(_TOOLING if in_chat else ()))
        said = {name: options[name] for name in own if name in options}
        for name in options.keys() - {*own, *model.option_names()}:
            known = [*model.option_names(), *own]
            raise marith.RequestError(_no_option(type(model).__name__, name, known))
        try:
            chosen = model.over({name: options[name] for name in options if name not in said})
        except ValidationError as error:
            raise marith.errors.from_validation(error) from error
        if chosen.faithful:  # to LlamaIndex's templates, which its engines mix with those of others
            patterns = [*filter(None, [chosen.faithful_to]), RETRIEVED]
            chosen = chosen.model_copy(update={"faithful_to": "|".join(patterns)})
        tooling = {name: said[name] for name in _TOOLING if said.get(name) is not None}
        tools = to_tools(tooling.pop("tools", None), **tooling)
        answering = {"grammar": held_to} | {n: said[n] for n in _ANSWERING if n in said}
        return cls(chosen, {"tools": tools, **answering})

    def about(self, prompt: Sequence[dict[str, Any]]) -> Asked:
        """The same of one prompt: where nothing was retrieved for it, there is no faithfulness."""
        if self.options.retrieves(prompt):
            return self
        return replace(self, options=self.options.model_copy(update={"faithful": 0.0}))

    def submit(self, prompt: Sequence[dict[str, Any]], begun: float) -> marith.Ticket:
        """Start on the engine. Blocks while weights load, or while the engine is busy.

        The timeout counts from when the call was `begun`.
        """
        return self.options.submit(prompt, begun=begun, **self.asked)

    async def asubmit(self, prompt: Sequence[dict[str, Any]], begun: float) -> marith.Ticket:
        """The same in a thread, awaited until the deadline."""
        submitted = sync_to_async(self.submit)(prompt, begun)
        return await self.options.deadline(begun).bound(submitted)


def _no_option(kind: str, name: str, known: list[str]) -> str:
    """What is wrong with an option, and which one it may have been meant for."""
    meant = get_close_matches(name, known, 1)
    told = f"; is {meant[0]!r} meant?" if meant else f", but {', '.join(known)}"
    return f"{kind} takes no option {name!r}{told}"
