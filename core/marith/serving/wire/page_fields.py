"""What the page sends beside what other clients do."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import (
    HARMLESS,
    AskedFields,
    ChatFields,
    DrawnFields,
    KnownFields,
    Number,
    Plain,
    TextFields,
    WireTerms,
    read_fields,
    require_one_prompt,
)

_BESIDE_KEPT = {"kept", "number", "values", "model"}


class PageKeyFields(BaseModel):
    """A token of one use, for which the page gets its key: `POST /page/key`."""

    model_config = ConfigDict(extra="forbid")

    token: StrictStr = Field(max_length=100)


class ExplainFields(KnownFields):
    """A formula to be explained, or a model's own: `POST /v1/explain`."""

    formula: StrictStr | None = None
    terms: WireTerms | None = None


class MadeTextFields(DrawnFields):
    """A text that was made, by the fields of the chat or the text that it is the answer to."""

    harmless: ClassVar[frozenset[str]] = HARMLESS | {
        "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs",
    }  # fmt: skip

    messages: list[dict[str, Any]] | None = None
    prompt: StrictStr | list[StrictInt] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[StrictStr, Plain] | None = Field(default=None, max_length=16)

    @property
    def asked(self) -> AskedFields:
        """The chat or the text. Raises Refusal where it is neither, or both."""
        require_one_prompt(self.prompt, self.messages)
        if self.streams:
            raise Refusal("this answer does not stream", param="stream")
        kind = ChatFields if self.messages is not None else TextFields
        names = kind.model_fields.keys() & type(self).model_fields.keys()
        fields = {name: getattr(self, name) for name in names}
        return read_fields(kind, {**fields, "marith": self.marith.model_dump()})


class InspectFields(MadeTextFields):
    """A continuation to be inspected: `POST /v1/inspect`. No token of it is drawn."""

    continuation: StrictStr | list[StrictInt]
    top: StrictInt = Field(default=10, ge=1)
    leave_one_out: StrictBool = True


class WhatIfFields(MadeTextFields):
    """A number of a formula and other values of it: `POST /v1/what_if`.

    First with the text's tokens and all with which they were drawn, then with what is `kept` of
    them. `ended` says that an end of the text was drawn after its tokens.
    """

    continuation: list[StrictInt] | None = None
    ended: StrictBool = False
    kept: StrictStr | None = Field(default=None, max_length=100)
    number: StrictInt = Field(ge=0)
    values: list[Number] = Field(min_length=1)

    def require_kept(self, model: str) -> None:
        """Raises Refusal for fields beside `kept`, where it is given: they are what was kept."""
        if self.kept is None:
            return
        others = self.model_fields_set - _BESIDE_KEPT - self.harmless
        given = (name for name in others if getattr(self, name) is not None)
        if name := min(given, default=None):
            problem = f"beside kept there are number and values alone, and no {name}"
            raise Refusal(f"{problem}; without kept the text is read anew", param=name)
        if self.model and self.model != model:
            raise Refusal(f"this text was kept of {model!r}, not of {self.model!r}", param="model")
