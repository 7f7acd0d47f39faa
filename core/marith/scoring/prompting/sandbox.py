"""Jinja as transformers sets it up for chat templates, where every operation pays.

A template is a program of whoever made the checkpoint. Jinja's sandbox keeps it from the machine,
and lets it run for ever and fill all memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils.chat_template_utils import _compile_jinja_template

from marith.scoring.prompting.budget import EACH, LEFT, LIGHT, Budget, refuse
from marith.scoring.prompting.metering import Metered, metered

_FREE_FILTERS = {"count", "d", "default", "first", "last", "length", "random"}
_FREE_TESTS = {
    "boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping",
    "none", "number", "sameas", "sequence", "string", "true", "undefined",
}  # fmt: skip
_WEIGHED = (dict, list, str, tuple)
_OF_DICTS = set(dir(dict))
_OF_JINJA = ("_loop_vars", "_block_vars")  # what it adds to every call
_NO_FILTERS = ("pprint", "striptags", "urlize", "wordwrap")
_METHODS = {name for kind in (str, list, tuple, dict) for name in dir(kind)}
_METHODS |= {"changed", "cycle", "next", "reset"}  # of loops and cyclers
_METHODS -= {"encode", "maketrans", "translate"}


class Bounded(ImmutableSandboxedEnvironment):
    """Transformers' environment, in which every operation takes from what is left."""

    code_generator_class = Metered

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,  # what is computed while a template is compiled is not paid for
        )
        theirs = _compile_jinja_template("").environment
        filters = {**theirs.filters, "tojson": _tojson(theirs.filters["tojson"])}
        filters |= {name: _refused(name) for name in _NO_FILTERS}
        named = theirs.globals["namespace"]
        self.globals.update(theirs.globals)
        self.globals["lipsum"] = _refused("lipsum")
        self.globals["namespace"] = type(
            named.__name__, (named,), {"__repr__": lambda _: "<Namespace>"}
        )
        self.filters.update({k: _paid(k, v, _FREE_FILTERS) for k, v in filters.items()})
        self.tests.update({k: _paid(k, v, _FREE_TESTS) for k, v in theirs.tests.items()})

    def budget(self) -> Budget:
        """What is left to the template that runs."""
        return LEFT.get()

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(metered(source), *args, **kwargs)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """What a template calls; a macro and a loop pay for what they read in their bodies."""
        budget = LEFT.get()
        if isinstance(obj, Macro | LoopContext):
            budget.spend(EACH + len(args) + len(kwargs))
            if isinstance(obj, LoopContext):
                args = (budget.turns(args[0]), *args[1:])
            return super().call(context, obj, *args, **kwargs)
        name = getattr(obj, "__name__", "")
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if owner is not None and name not in _METHODS:
            refuse(name)
        if name == "join" and args:
            args = (budget.read(name, args[0], (owner,)), *args[1:])
        else:
            named = (value for key, value in kwargs.items() if key not in _OF_JINJA)
            budget.read(name, owner, (*args, *named))
        result = super().call(context, obj, *args, **kwargs)
        return result if name in LIGHT else budget.made(result)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute as Jinja finds it, sooner for what templates ask most."""
        if type(obj) is dict and attribute not in _OF_DICTS:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An element as Jinja finds it, paid for where no weight holds it: in a namespace."""
        value = super().getitem(obj, argument)
        if type(obj) not in _WEIGHED:
            LEFT.get().looked_up(value)
        return value


class _Generation(Extension):
    """`{% generation %}`, which marks what a model is trained on, and renders what is inside."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _paid(name: str, function: Callable[..., Any], free: set[str]) -> Callable[..., Any]:
    """A filter or a test that pays for what it reads and makes."""
    if name in free:
        return function
    passed = int(hasattr(function, "jinja_pass_arg"))  # by Jinja itself, before the value
    operation = "%" if name == "format" else name

    @wraps(function)
    def paid(*args: Any, **kwargs: Any) -> Any:
        budget = LEFT.get()
        main, *rest = args[passed:]
        main = budget.read(operation, main, (*rest, *kwargs.values()))
        return budget.made(function(*args[:passed], main, *rest, **kwargs))

    return paid


def _tojson(function: Callable[..., str]) -> Callable[..., str]:
    """The filter, whose indented text is paid for while it is made."""

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        if indent is None and separators is None:
            return function(value, ensure_ascii=ensure_ascii, sort_keys=sort_keys)
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return "".join(LEFT.get().turns(encoder.iterencode(value)))

    return tojson


def _refused(name: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        refuse(name)

    return refused
