"""One call of a model: its options with those of the call over them, and its requests' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.tools.function_tool import sync_to_async
from pydantic import ValidationError

import marith
from llamaindex_marith.retrieved_text import or_retrieved
from llamaindex_marith.tool_selection import to_tools

_TOOL_OPTIONS = ("tools", "tool_choice", "tool_required", "allow_parallel_tool_calls", "strict")
_ANSWER_OPTIONS = ("grammar", "logprobs")


@dataclass(frozen=True, slots=True)
class ChatCall:
    """The options of one call, and what its requests have beside them."""

    options: marith.Options
    request_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: marith.Options,
        answers: marith.Grammar | None,
        options: Mapping[str, Any],
        in_chat: bool,
    ) -> ChatCall:
        """A model's options and the grammar of its `answers`, with those of one call over them.

        Raises RequestError for an option that does not exist, before anything loads.
        """
        names = (*_ANSWER_OPTIONS, *(_TOOL_OPTIONS if in_chat else ()))
        request_fields = {name: options[name] for name in names if name in options}
        for name in () if in_chat else options.keys() & {*_TOOL_OPTIONS}:
            problem = f"{type(model).__name__} takes no option {name!r} for a completion"
            raise marith.RequestError(f"{problem}; tools are for a chat")
        model.check_call(options, names)
        try:
            chosen = model.over(
                {name: options[name] for name in options if name not in request_fields}
            )
        except ValidationError as error:
            raise marith.errors.from_validation(error) from error
        if chosen.faithful:  # to LlamaIndex's templates, which its engines mix with those of others
            pattern = or_retrieved(chosen.faithful_to)
            chosen = chosen.model_copy(update={"faithful_to": pattern})
        tool_options = {
            n: request_fields[n] for n in _TOOL_OPTIONS if request_fields.get(n) is not None
        }
        tools = to_tools(tool_options.pop("tools", None), **tool_options)
        answer = {"grammar": answers} | {
            n: request_fields[n] for n in _ANSWER_OPTIONS if n in request_fields
        }
        return cls(chosen, {"tools": tools, **answer})

    def for_prompt(self, prompt: Sequence[dict[str, Any]]) -> ChatCall:
        """The same for one prompt: `faithful` is 0 where nothing was retrieved for it."""
        if self.options.retrieves(prompt):
            return self
        return replace(self, options=self.options.model_copy(update={"faithful": 0.0}))

    def submit(self, prompt: Sequence[dict[str, Any]], started: float) -> marith.Ticket:
        """Start a request. Blocks while weights load, or while the engine is busy.

        The timeout counts from `started`.
        """
        return self.options.submit(prompt, started=started, **self.request_options)

    async def asubmit(self, prompt: Sequence[dict[str, Any]], started: float) -> marith.Ticket:
        """The same in a thread, awaited until the deadline."""
        submitted = sync_to_async(self.submit)(prompt, started)
        return await self.options.deadline(started).bound(submitted)
