"""The tools that an answer may call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marith.errors import RequestError, shown
from marith.request.checks import check_fields, checked_by, flag, optional, require_json
from marith.request.forms.grammar import Grammar
from marith.request.forms.json_schema import EMPTY, schema_text

CHOICES = ("auto", "required", "none")


@dataclass(frozen=True, slots=True)
class Tools:
    """Functions that the model may call, in OpenAI's format: each has a name and a JSON schema.

    - `choice`: "auto" (text, calls, or text and then calls), "required" (only calls), the name of
      a tool (one call of it), or "none" (the prompt lists no tools, and the answer has no calls).
    - `parallel`: if True, an answer may have several calls. The answer ends before a repeated call.
    - `strict`: as for `Grammar.json_schema`. A tool's own "strict" has priority. Array items may
      repeat despite `uniqueItems`, so a tool that takes a set must drop repeats.
    - `steer`: if False, the bare model, not the formula, samples the tokens inside a call.
    - `as_text`: if True, the answer is one call, whose arguments become the answer's text.
    """

    definitions: tuple[Mapping[str, Any], ...] = field(compare=False)
    choice: str = "auto"
    parallel: bool = field(default=True, metadata=checked_by(flag))
    strict: bool | None = field(default=None, metadata=checked_by(optional(flag)))
    steer: bool = field(default=True, metadata=checked_by(flag, "steer_tools", untrusted=True))
    as_text: bool = field(default=False, metadata=checked_by(flag))
    # The definitions as JSON, with the keys in the order in which they were given.
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.definitions, (list, tuple)) or not self.definitions:
            raise RequestError(f"tools must be a list of functions, not {shown(self.definitions)}")
        for tool in self.definitions:
            _check_definition(tool)
        text = json.dumps(self.definitions, ensure_ascii=False)
        object.__setattr__(self, "text", text)
        # The definitions are copied, because the caller may change them later.
        object.__setattr__(self, "definitions", tuple(json.loads(text)))
        names = self.names
        for name, count in Counter(names).items():
            if count > 1:
                raise RequestError(f"two tools are named {name!r}")
            if name in CHOICES:
                raise RequestError(
                    f"a tool cannot be named {name!r}, because tool_choice uses that word"
                )
        if self.choice not in (*CHOICES, *names):
            there_are = f"the tools are {', '.join(names)}"
            raise RequestError(f"no tool is named {shown(self.choice)}; {there_are}")
        for tool in self.callable:
            try:
                # This raises RequestError if the schema cannot be enforced.
                Grammar("json_schema", self.schema_of(tool))
            except RequestError as error:
                raise RequestError(f"the tool {tool['name']!r}: {error}") from None

    @classmethod
    def of_schema(cls, grammar: Grammar) -> Tools:
        """Return `Tools` with one tool, which shows a grammar's schema to the model.

        The arguments of its call are the answer.
        """
        tool = json.loads(grammar.tool)
        return cls((tool,), tool["function"]["name"], parallel=False, as_text=True)

    @property
    def names(self) -> list[str]:
        """The names of all tools."""
        return [str(tool["function"]["name"]) for tool in self.definitions]

    @property
    def named(self) -> bool:
        """True if `choice` is the name of a tool."""
        return self.choice not in CHOICES

    @property
    def callable(self) -> list[Mapping[str, Any]]:
        """The functions that may be called."""
        if self.choice == "none":
            return []
        functions = [tool["function"] for tool in self.definitions]
        return [f for f in functions if f["name"] == self.choice] if self.named else functions

    def schema_of(self, tool: Mapping[str, Any]) -> str:
        """Return the JSON schema of a function's arguments as text. Raises RequestError."""
        strict = tool.get("strict")
        schema = tool.get("parameters") or EMPTY
        if isinstance(schema, Mapping):
            schema = {"type": "object", **schema}
            if schema["type"] != "object":
                kind = schema["type"]
                form = "the type 'object', as in {'type': 'object', 'properties': {…}}"
                raise RequestError(f"its parameters must have {form}, not {shown(kind)}")
        return schema_text(schema, self.strict if strict is None else strict, drops_repeats=True)


def _check_definition(tool: Any) -> None:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        shape = {"type": "function", "function": {"name": "…", "parameters": {}}}
        raise RequestError(f"a tool must be written as {shape}, not {shown(tool)}")
    strict = function.get("strict")
    if not (strict is None or isinstance(strict, bool)):
        problem = f"'strict' of the tool {function['name']!r} must be True or False"
        raise RequestError(f"{problem}, not {shown(strict)}")
    require_json(tool, f"the tool {function['name']!r}")
