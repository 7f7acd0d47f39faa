"""What the LlamaIndex model is: plain data that says what to sample, and a ticket on an engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

import marith

_ROLES = {MessageRole.CHATBOT: "assistant", MessageRole.MODEL: "assistant"}


class Speaking(BaseModel):
    """The options of a model, all of them plain data; each may be given again for one call.

    `formula` says what to sample from; `terms` maps its names to system prompts or formula text.
    Both are checked here, before any model loads; weights load when the first text is asked for.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default_factory=lambda: os.environ.get("MARITH_MODEL", "pocket"))
    formula: str = "M"
    terms: dict[str, str] = Field(default_factory=dict)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    max_tokens: int = Field(default=256, ge=1)
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    seed: int | None = None
    device: str | None = None
    dtype: str | None = None
    max_lanes: int = Field(default=64, ge=1)
    context_length: int | None = Field(default=None, ge=2)
    revision: str | None = None
    speculation: Literal["auto"] | None = "auto"

    @field_validator("formula", mode="before")
    @classmethod
    def _formula_as_text(cls, formula: Any) -> Any:
        return _as_text(formula)

    @field_validator("terms", mode="before")
    @classmethod
    def _terms_as_text(cls, terms: Any) -> Any:
        if not isinstance(terms, Mapping):
            return terms
        return {name: _as_text(term) for name, term in terms.items()}

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        marith.explain(self.formula, self.terms)
        return self

    def _spoken(self, options: Mapping[str, Any]) -> Speaking:
        """These options with those of one call over them; strings that stop are joined."""
        for name in options:
            if name not in Speaking.model_fields:
                known = ", ".join(Speaking.model_fields)
                raise ValueError(f"{type(self).__name__} takes no option {name!r}, but {known}")
        own = {name: getattr(self, name) for name in Speaking.model_fields}
        stop = options.get("stop") or ()
        strings = dict.fromkeys([*self.stop, *([stop] if isinstance(stop, str) else stop)])
        return Speaking(**{**own, **options, "stop": list(strings)})

    def _engine(self) -> marith.Engine:
        return marith.Engine.shared(
            self.model,
            device=self.device,
            dtype=self.dtype,
            max_lanes=self.max_lanes,
            context_length=self.context_length,
            revision=self.revision,
        )

    def _submit(self, messages: Sequence[ChatMessage]) -> marith.Ticket:
        sampling = marith.Sampling(
            self.temperature,
            self.top_k,
            self.top_p,
            self.min_p,
            self.repetition_penalty,
            self.seed,
        )
        stop = marith.Stop(self.max_tokens, tuple(self.stop))
        prompt = [_to_dict(message) for message in messages]
        return self._engine().submit(
            marith.Request(prompt, self.formula, self.terms, sampling, stop, self.speculation)
        )


def _to_dict(message: ChatMessage) -> dict[str, Any]:
    """Role and content, and which call a tool answers. Raises ValueError for what is no text."""
    for block in message.blocks:
        if not isinstance(block, TextBlock):
            raise ValueError(f"only text can be read, not a {type(block).__name__}")
    given = {"role": _ROLES.get(message.role, message.role.value), "content": message.content or ""}
    call = message.additional_kwargs.get("tool_call_id")
    return given if call is None else {**given, "tool_call_id": call}


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, marith.Formula) else value
