"""Answers that are objects of a pydantic class, whose schema a grammar enforces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.instrumentation.events.llm import (
    LLMStructuredPredictEndEvent,
    LLMStructuredPredictStartEvent,
)
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import dispatcher
from llama_index.core.program.utils import FlexibleModel, create_flexible_model
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

import marith
from marith.openai_format import schema_grammar

# This quotes a value as marith's own errors do.
shown = marith.errors.shown

# LlamaIndex's programs call a tool to get an object. Here no tool is called, so these options about
# tools are dropped.
_PROGRAM_OPTIONS = ("tool_choice", "tool_required", "allow_parallel_tool_calls")
_NOT_BESIDE_A_CLASS = frozenset(("grammar", "tools"))


class StructuredPrediction(CustomLLM, FunctionCallingLLM):
    """A model whose structured answers follow their schema.

    If `pydantic_program_mode` is not the default, LlamaIndex's own programs run.
    """

    def structured_predict(
        self,
        output_cls: type[Any],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Return an object of `output_cls`. Raises ValueError for an answer that is cut off."""
        if self._by_program:
            return super().structured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        _started(output_cls, prompt, prompt_args)
        messages, options = self._call(output_cls, prompt, llm_kwargs, prompt_args)
        answer = self.chat(messages, **options)
        return _ended(parsed_object(output_cls, answer))

    async def astructured_predict(
        self,
        output_cls: type[Any],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Return an object of `output_cls`, without blocking the event loop."""
        if self._by_program:
            return await super().astructured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
        _started(output_cls, prompt, prompt_args)
        messages, options = self._call(output_cls, prompt, llm_kwargs, prompt_args)
        answer = await self.achat(messages, **options)
        return _ended(parsed_object(output_cls, answer))

    def _structured_stream_call(
        self,
        output_cls: type[Any],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Generator[Any, None, None]:
        if self._by_program:
            return super()._structured_stream_call(output_cls, prompt, llm_kwargs, **prompt_args)
        messages, options = self._call(output_cls, prompt, llm_kwargs, prompt_args)
        return self._objects(output_cls, messages, options)

    async def _structured_astream_call(
        self,
        output_cls: type[Any],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> AsyncGenerator[Any, None]:
        if self._by_program:
            call = super()._structured_astream_call
            return await call(output_cls, prompt, llm_kwargs, **prompt_args)
        messages, options = self._call(output_cls, prompt, llm_kwargs, prompt_args)
        return self._aobjects(output_cls, messages, options)

    def _call(
        self,
        output_cls: type[Any],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None,
        prompt_args: dict[str, Any],
    ) -> tuple[list[ChatMessage], dict[str, Any]]:
        """Return the messages and the options for a chat that answers with the object."""
        messages = self._extend_messages(prompt.format_messages(llm=self, **prompt_args))
        return messages, options_with_grammar(output_cls, llm_kwargs)

    def _objects(
        self, output_cls: type[Any], messages: list[ChatMessage], options: dict[str, Any]
    ) -> Generator[Any, None, None]:
        partial = PartialObject(output_cls)
        with closing(self.stream_chat(messages, **options)) as answers:
            for answer in answers:
                if (next_object := partial.next_object(answer)) is not None:
                    yield next_object

    async def _aobjects(
        self, output_cls: type[Any], messages: list[ChatMessage], options: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        partial = PartialObject(output_cls)
        async with aclosing(await self.astream_chat(messages, **options)) as answers:
            async for answer in answers:
                if (next_object := partial.next_object(answer)) is not None:
                    yield next_object

    @property
    def _by_program(self) -> bool:
        return self.pydantic_program_mode != PydanticProgramMode.DEFAULT


def _started(output_cls: type[Any], prompt: PromptTemplate, args: dict[str, Any]) -> None:
    event = LLMStructuredPredictStartEvent(
        output_cls=output_cls, template=prompt, template_args=args
    )
    dispatcher.event(event)


def _ended(output: BaseModel) -> BaseModel:
    dispatcher.event(LLMStructuredPredictEndEvent(output=output))
    return output


def options_with_grammar(
    output_cls: type[BaseModel], options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a call's options with the grammar of the class.

    The prompt shows the schema to the model, unless the option `show_schema` is False. Raises
    RequestError for a class without a JSON schema.
    """
    kept = {k: value for k, value in (options or {}).items() if k not in _PROGRAM_OPTIONS}
    for name in _NOT_BESIDE_A_CLASS.intersection(kept):
        raise marith.RequestError(f"structured_predict takes no {name!r}: the class is the grammar")
    if not (isinstance(output_cls, type) and issubclass(output_cls, BaseModel)):
        raise marith.RequestError(f"output_cls is a pydantic class, not {shown(output_cls)}")
    show_schema = kept.pop("show_schema", True)
    return {**kept, "grammar": schema_grammar(output_cls, None, show_schema)}


def parsed_object(output_cls: type[BaseModel], answer: ChatResponse) -> BaseModel:
    """Return the object of an answer. Raises ValueError for an answer without a complete object."""
    text = answer.message.content or ""
    try:
        return output_cls.model_validate_json(text)
    except ValidationError as error:
        why = _why(answer.raw or {}) or str(error)
        raise marith.RequestError(
            f"the answer is not a valid {output_cls.__name__}: {why}: {text!r}"
        ) from error


def _why(raw: Mapping[str, Any]) -> str:
    """Return why an answer ended before its object was complete."""
    if raw.get("finish_reason") == "length":
        return "it was cut off at max_tokens"
    return f"it ended at the stop string {raw['stop_reason']!r}" if "stop_reason" in raw else ""


@dataclass(slots=True)
class PartialObject:
    """The object of a stream.

    It is an instance of `output_cls` as soon as that class accepts it, and of `partial_class` until
    then.
    """

    output_cls: type[BaseModel]
    last: BaseModel | None = None
    partial_class: type[FlexibleModel] = field(init=False)

    def __post_init__(self) -> None:
        self.partial_class = create_flexible_model(self.output_cls)

    def next_object(self, answer: ChatResponse) -> BaseModel | None:
        """Return the object so far if it has changed, else None. The last object is complete."""
        latest = (
            parsed_object(self.output_cls, answer)
            if answer.raw is not None
            else self._so_far(answer)
        )
        changed = None if latest == self.last else latest
        self.last = latest or self.last
        return changed

    def _so_far(self, answer: ChatResponse) -> BaseModel | None:
        text = answer.message.content
        if not text:
            return None
        data = from_json(text, allow_partial="trailing-strings")
        for kind in (self.output_cls, self.partial_class):
            # Validators of the application expect a complete object.
            with suppress(Exception):
                return kind.model_validate(data)
        return None
