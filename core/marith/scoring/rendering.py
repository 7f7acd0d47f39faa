"""Chat templates, rendered as transformers renders them, within bounds on steps and letters.

A template is a program of whoever made the checkpoint. Jinja's sandbox keeps it from the machine,
and lets it run for ever and fill all memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

from jinja2 import Template, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer
from transformers.utils.chat_template_utils import _compile_jinja_template

from marith.errors import RequestError
from marith.scoring.budget import (
    LEFT,
    MOST_LETTERS,
    MOST_STEPS,
    check_growth,
    check_size,
    check_tree,
    sized,
    spend,
)

COPIES = 16  # of a message's text, which a template may trim, join and look at
_BUFFERED = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)
_REASONING = ("reasoning_content", "thinking", "reasoning")  # one thing, by what templates call it


class Refused(Exception):
    """What a template says of messages that it does not render."""


def render(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    opens: bool = True,
) -> str:
    """The text of messages; where it `opens`, up to where the model's turn begins.

    Raises Refused for messages that the template does not take, RequestError for a template that
    does not end.
    """
    given = sum(len(str(message.get("content", ""))) for message in messages)
    budget = LEFT.set([MOST_STEPS, MOST_LETTERS + COPIES * given])
    try:
        template = _compiled(tokenizer.get_chat_template(None, tools=list(tools) or None))
        named = {**tokenizer.special_tokens_map, **_plain(dict(options or {}))}
        pieces = template.generate(
            messages=[_message(message) for message in messages],
            tools=_plain(list(tools)) or None,
            documents=None,
            add_generation_prompt=opens,
            **named,
        )
        return "".join(_counted(pieces))
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise RequestError(f"the chat template does not end, or is none: {error}") from None
    except RequestError:
        raise
    except Exception as error:  # a template may raise whatever Python may
        raise Refused(str(error) or type(error).__name__) from error
    finally:
        LEFT.reset(budget)


class _Bounded(ImmutableSandboxedEnvironment):
    """Transformers' environment, in which every turn, call and text is counted."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,  # what is computed while a template is compiled is not counted
            finalize=_written,
        )
        theirs = _compile_jinja_template("").environment
        self.globals.update(theirs.globals)
        self.filters.update({k: _filter(k, each) for k, each in theirs.filters.items()})

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(_Counting().visit(source), *args, **kwargs)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, LoopContext):
            args = (self.turns(args[0]), *args[1:])
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        values = (owner, *args, *kwargs.values())
        check_growth(getattr(obj, "__name__", ""), values)
        return sized(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        check_growth(operator, (left, right))
        return sized(super().call_binop(context, operator, left, right))

    def turns(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items of a loop, each a step."""
        for item in items:
            spend(1, 0)
            yield item

    def joined(self, text: Any) -> Any:
        """What `~` makes."""
        return sized(text)

    def kept(self, text: str) -> str:
        """A template's own text where it is kept instead of written."""
        spend(0, len(text))
        return text


class _Counting(NodeTransformer):
    """Lets a template call its environment wherever Jinja itself would not."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (as Jinja names it)
        self.generic_visit(node)
        node.iter = _call("turns", node.iter)  # type: ignore[arg-type]  # an expression
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("joined", node)

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, _BUFFERED):
            for output in node.find_all(nodes.Output):
                output.nodes = [_kept(each) for each in output.nodes]
        return super().visit(node, *args, **kwargs)


def _kept(node: nodes.Expr) -> nodes.Expr:
    return _call("kept", nodes.Const(node.data)) if isinstance(node, nodes.TemplateData) else node


class _Generation(Extension):
    """`{% generation %}`, which marks what a model is trained on, and renders what is inside."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller: Callable[[], str]) -> str:
        return caller()


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    return _Bounded().from_string(text)


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), [*arguments], [], None, None)


@pass_context  # without it a constant would be written while a template is compiled
def _written(_: Any, value: Any) -> Any:
    if isinstance(value, str):
        text = value
    else:
        check_tree(value)
        text = str(value)
    spend(0, len(text))
    return text


def _counted(pieces: Iterable[str]) -> Iterator[str]:
    letters = 0
    for piece in pieces:
        letters += len(piece)
        check_size(letters)
        yield piece


def _filter(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if name == "join":
            args = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
        check_growth(name, (*args, *kwargs.values()))
        for each in args:
            check_tree(each)
        return sized(own(*args, **kwargs))

    return counted


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as transformers shows it to templates: what is None is left out."""
    told: dict[str, Any] = _plain({k: v for k, v in message.items() if v is not None})
    thought = next((told[name] for name in _REASONING if told.get(name) is not None), None)
    return told if thought is None else {"thinking": thought, **told, "reasoning_content": thought}


def _plain(value: Any) -> Any:
    """Data as JSON has it: a template calls no method of anything else."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    match value:
        case Mapping():
            return {_plain(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case str():
            return str.__str__(value)
        case int() | float():
            return value + 0
    return f"<{type(value).__name__}>"
