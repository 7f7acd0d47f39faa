"""Structured output: a model whose answers follow a schema, and the parser of the answers."""

from __future__ import annotations

import json
from enum import Enum
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Literal, get_args

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import BaseCumulativeTransformOutputParser
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.json import parse_partial_json
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, BeforeValidator, SkipValidation, ValidationError, create_model
from pydantic.v1 import ValidationError as OldValidationError
from pydantic_core import to_json

import marith
from langchain_marith.exceptions import translated
from marith.openai_format import schema_of, to_grammar

Method = Literal["json_schema", "function_calling", "json_mode"]
Schema = dict[str, Any] | type
_VALUE = "value"
_NAMED_BY = ("title", "name", "function", "toolSpec")


class StructuredOutputParser(BaseCumulativeTransformOutputParser[Any]):
    """Parses an answer, or the arguments of a call of `tool`, as JSON.

    The result is an instance of `kind`, or the JSON value itself if `kind` is None. A stream yields
    the object as far as it is complete. A finished answer that was cut off raises
    OutputParserException: its missing end is not guessed.
    """

    kind: Annotated[Any, SkipValidation()] = None
    tool: str | None = None
    # The name of the field whose value is the answer. None means that the whole object is the
    # answer.
    field: str | None = None

    @property
    def OutputType(self) -> Any:  # noqa: N802 (LangChain's name)
        """The pydantic class, the Enum, or dict."""
        if self.field is not None:
            return self.kind.model_fields[self.field].annotation
        return self.kind or dict[str, Any]

    @property
    def _type(self) -> str:
        return "marith_structured"

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return the object, or None if `partial` text is not an object yet."""
        message = result[0].message if isinstance(result[0], ChatGeneration) else None
        text = _arguments(message, self.tool) if self.tool and message else result[0].text
        return self._object(text, partial, message)

    def parse(self, text: str) -> Any:
        """Return the object that a JSON text describes."""
        return self._object(text, False, None)

    def _object(self, text: str, partial: bool, message: Any) -> Any:
        try:
            data = parse_partial_json(text) if partial else json.loads(text)
            if self.kind is None:
                return data
            validate = getattr(self.kind, "model_validate", None) or self.kind.parse_obj
            made = validate(data)
            return made if self.field is None else getattr(made, self.field)
        except (ValueError, ValidationError, OldValidationError) as error:
            if partial:
                return None
            raise OutputParserException(
                f"the answer is not {self._expected()}: {_why(message) or error}", llm_output=text
            ) from error

    def _expected(self) -> str:
        return "JSON" if self.kind is None else f"a {self.kind.__name__}"


def _arguments(message: Any, tool: str) -> str:
    """Return the first call's arguments as JSON text, or an empty text if there is no call."""
    pieces = getattr(message, "tool_call_chunks", None)
    if pieces:
        return str(next((p["args"] for p in pieces if p["name"] == tool), None) or "")
    if not isinstance(message, AIMessage):
        return ""
    for call in message.tool_calls:
        if call["name"] == tool:
            return json.dumps(call["args"])
    return str(next((c["args"] for c in message.invalid_tool_calls if c["name"] == tool), ""))


def _why(message: Any) -> str:
    cut = message is not None and message.response_metadata.get("finish_reason") == "length"
    return "it was cut off at max_tokens" if cut else ""


def model_and_parser(
    chat: BaseChatModel,
    schema: Schema | None,
    method: Method,
    strict: bool | None,
    show_schema: bool = True,
) -> tuple[Runnable[LanguageModelInput, AIMessage], StructuredOutputParser]:
    """Return a chat model whose answers follow a schema, and the parser of the answers.

    Raises RequestError for an unknown method, and for a schema that cannot be enforced.
    """
    if method not in get_args(Method):
        raise marith.RequestError(f"method is one of {', '.join(get_args(Method))}, not {method!r}")
    if schema is None and method != "json_mode":
        raise marith.RequestError(f"method {method!r} needs a schema")
    if isinstance(schema, dict):
        # LangChain would ignore a schema that is wrapped in another object. This refuses it.
        schema_of(schema)
    field = None
    if isinstance(schema, type) and issubclass(schema, Enum):
        schema, field = _object_of(schema), _VALUE
    named = None if schema is None else _named(schema)
    traced = {"kwargs": {"method": method}, "schema": named and convert_to_json_schema(named)}
    is_model = isinstance(schema, type) and is_basemodel_subclass(schema)
    parser = StructuredOutputParser(kind=schema if is_model else None, field=field)
    if named is not None and method == "function_calling":
        parser.tool = str(convert_to_openai_tool(named)["function"]["name"])
        calling = chat.bind_tools(
            [named],
            tool_choice=parser.tool,
            strict=strict,
            parallel_tool_calls=False,
            ls_structured_output_format=traced,
        )
        return calling, parser
    format_ = (
        {"type": "json_object"} if named is None else _response_format(named, strict, show_schema)
    )
    with translated():
        # This refuses an invalid schema now, and not at the first call.
        to_grammar(None, format_)
    return chat.bind(response_format=format_, ls_structured_output_format=traced), parser


def _object_of(kind: type[Enum]) -> type[BaseModel]:
    """Return a pydantic class with one field, of type `kind`: LangChain's tools need a class."""
    described = {} if kind.__doc__ is None else {"__doc__": kind.__doc__}
    read: Any = Annotated[kind, BeforeValidator(partial(_member, kind))]
    return create_model(kind.__name__, **described, **{_VALUE: (read, ...)})  # type: ignore[call-overload,no-any-return]


def _member(kind: type[Enum], value: Any) -> Any:
    """Return the Enum's member for a JSON value, or the value itself if there is no such member."""
    return next((member for member in kind if to_json(member.value) == to_json(value)), value)


def _named(schema: Schema) -> Schema:
    """Return the schema. A JSON schema without a name gets one, because LangChain needs one."""
    if isinstance(schema, dict) and not any(key in schema for key in _NAMED_BY):
        return {"title": "answer", **schema}
    return schema


def _response_format(schema: Schema, strict: bool | None, show_schema: bool) -> dict[str, Any]:
    """Return a schema as `response_format`. `show_schema` adds the schema to the prompt."""
    name = convert_to_openai_tool(schema)["function"]["name"]
    described: dict[str, Any] = {"name": name, "schema": _json_schema(schema)}
    if strict is not None:
        described["strict"] = strict
    if show_schema is not True:
        described["show_schema"] = show_schema
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        # If a field is a set, pydantic drops repeated items.
        described["drops_repeats"] = True
    return {"type": "json_schema", "json_schema": described}


def _json_schema(schema: Schema) -> dict[str, Any]:
    """Return the JSON schema of answers, with all properties that the application declared."""
    if isinstance(schema, dict):
        is_function = any(key in schema for key in _NAMED_BY[1:])
        return convert_to_json_schema(schema) if is_function else schema
    if is_basemodel_subclass(schema):
        # LangChain's conversion would resolve references, and so lose recursive ones.
        is_new = issubclass(schema, BaseModel)
        return dict(schema_of(schema) if is_new else schema.schema())  # type: ignore[attr-defined]
    return convert_to_json_schema(schema)


def with_parser(
    model: Runnable[Any, Any], parser: StructuredOutputParser, include_raw: bool
) -> Runnable[Any, Any]:
    """Return a model with parsed answers.

    With `include_raw`, an answer is a dict with the message, the object and the error.
    """
    if not include_raw:
        return model | parser
    parse = RunnablePassthrough.assign(
        parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
    )
    failed = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=model) | parse.with_fallbacks([failed], exception_key="parsing_error")
