"""What clients send to `POST /v1/responses`; nothing is kept, so each brings all that was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import (
    HARMLESS,
    OF_SCHEMAS,
    REFUSED,
    DrawnFields,
    Plain,
    others,
)

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
OF_TOOLS = ("name", "description", "parameters", "strict")
_KEPT = "nothing is kept here; send the whole conversation as input"


class OutputFormat(BaseModel):
    """What the text of an answer has to be."""

    model_config = ConfigDict(extra="allow")

    format: dict[str, Any] | None = None


class ResponseFields(DrawnFields):
    """An answer in items: `POST /v1/responses`."""

    refused: ClassVar[Mapping[str, str]] = {
        **REFUSED,
        "previous_response_id": _KEPT,
        "conversation": _KEPT,
        "store": "nothing is kept here; write store: false",
        "background": "an answer comes at once or in events",
        "prompt": "no prompts are kept here; write instructions and input",
        "context_management": "an input stays as it is",
        "moderation": "there is none here",
        "messages": "write input",
        "max_tokens": "write max_output_tokens",
        "max_completion_tokens": "write max_output_tokens",
        "n": "ask again for another answer",
        "best_of": "ask again for another answer",
        "logprobs": f"write include: [{LOGPROBS!r}]",
        "response_format": "write text.format",
        "guided_json": "write text.format",
        "structured_outputs": "write text.format or grammar",
    }
    harmless: ClassVar[frozenset[str]] = HARMLESS | {"max_tool_calls"}  # of tools that run here

    input: StrictStr | Annotated[list[dict[str, Any]], Field(min_length=1)]
    instructions: StrictStr | None = None
    max_output_tokens: StrictInt | None = Field(default=None, ge=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    text: OutputFormat | None = None
    include: list[StrictStr] | None = None
    top_logprobs: StrictInt | None = Field(default=None, ge=0)
    truncation: Literal["disabled"] | None = None
    metadata: (
        dict[
            Annotated[StrictStr, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]
        ]
        | None
    ) = Field(default=None, max_length=16)
    chat_template_kwargs: dict[StrictStr, Plain] | None = Field(default=None, max_length=16)

    @property
    def format(self) -> Mapping[str, Any]:
        """What the text has to be, as the answer says it again."""
        given = self.text.format if self.text is not None else None
        return {"type": "text"} if given is None else given

    @property
    def choice(self) -> str | dict[str, Any]:
        """Which tool is called, as the answer has it again. Raises Refusal."""
        match self.tool_choice:
            case None:
                return "auto"
            case "any":
                return "required"
            case "auto" | "none" | "required" as word:
                return word
            case str(name):
                return {"type": "function", "name": name}
            case {"type": "function", "name": str(name)} as chosen if len(chosen) == 2:
                return {"type": "function", "name": name}
        form = "'auto', 'none', 'required' or {'type': 'function', 'name': '…'}"
        problem = f"tool_choice is {form}, not {self.tool_choice!r:.80}"
        raise Refusal(problem, code="invalid_value", param="tool_choice")

    @property
    def scores(self) -> bool:
        """Whether the text comes with its log-probabilities."""
        return LOGPROBS in (self.include or ())

    def unknown(self) -> list[str]:
        """Fields that nobody here knows. Raises Refusal for one that would change the text."""
        of_text = (self.text.model_extra or {}) if self.text is not None else {}
        named = others(of_text, ("verbosity",), "text")
        is_schema = self.format.get("type") == "json_schema"
        named += others(self.format, ("type", *(OF_SCHEMAS if is_schema else ())), "text.format")
        for i, tool in enumerate(self.tools or ()):
            beside = (name for name in tool if name not in ("type", *OF_TOOLS) and tool[name])
            named += [f"tools.{i}.{name:.40}" for name in beside]
        return [*super().unknown(), *named]
