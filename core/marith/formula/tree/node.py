"""The base class of all parts of a formula: size, hash, and equality by structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, singledispatch
from operator import attrgetter
from typing import Any, TypeVar

from marith.errors import TooLarge, shown

Kind = TypeVar("Kind", bound="Node")

# The limits of a formula, whether it is read from a text or built in Python.
# A term counts as one character, because its system prompt may have any length.
MAX_LENGTH = 20_000  # characters
MAX_NODES = 5_000
# Printing and binding recurse for each level of a formula.
MAX_DEPTH = 60
# Python's parser recurses for each member of a sum.
MAX_ROW = 500


class Node:
    """A part of a formula's tree. Immutable, hashable, without tensors.

    A subclass is a `@dataclass(frozen=True, slots=True, eq=False)`; its `_validate` checks the
    fields. A node stores its hash and its size: `nodes`, `depth` and `letters`, which are computed
    from the sizes of its parts. A part that occurs twice counts twice: after n runs of `f = cfg(a,
    f)` the formula has 2^n nodes, although only n objects exist. A node that exceeds a limit raises
    TooLarge when it is made, so no walk, copy or comparison ever visits more than `MAX_NODES`
    nodes.
    """

    __slots__ = ("_hash", "depth", "inner", "letters", "nodes")
    # Walks end at a leaf, even if it has inner nodes, as a classifier with a guide does.
    leaf = False
    # If `decoding.evaluate` does not know a kind of node, its class names here the function that
    # computes it, as "module:function".
    computed_by = ""

    _hash: int
    # All nodes in its fields, from left to right.
    inner: tuple[Node, ...]
    nodes: int
    depth: int
    # An upper bound on its printed length, in characters.
    letters: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Without a `__repr__` of its own, a dataclass would print its fields.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Node.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        self._validate()
        values = _values(self)
        inner: list[Node] = []
        for value in values:
            if isinstance(value, Node):
                inner.append(value)
            elif isinstance(value, tuple):
                inner += [item for item in value if isinstance(item, Node)]
        nodes, depth = 1, 0
        for part in inner:
            nodes += part.nodes
            depth = max(depth, part.depth)
        set_once = object.__setattr__
        set_once(self, "inner", tuple(inner))
        set_once(self, "nodes", nodes)
        set_once(self, "depth", depth + 1)
        set_once(self, "letters", printed_length(self))
        set_once(self, "_hash", hash((type(self), *values)))
        _refuse_beyond(self.nodes, self.depth, self.letters)

    def _validate(self) -> None:
        """Raise FormulaError for invalid fields, and normalise the others."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or type(self) is not type(other):
            return NotImplemented
        # Stored hashes differ for almost all unequal trees, so few trees are compared all the way
        # down to their leaves.
        return self._hash == other._hash and _values(self) == _values(other)

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self: Kind) -> Kind:
        return self

    def __deepcopy__(self: Kind, _: Any) -> Kind:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (name for name, field in _fields(self).items() if field.init)
        return type(self), tuple(getattr(self, name) for name in arguments)

    def __str__(self) -> str:
        return printed(self)

    def __repr__(self) -> str:
        return printed(self)


@singledispatch
def printed(node: Node) -> str:
    """Return a node as text. The rules are in `printing`."""
    raise TypeError(f"no text is registered for a {type(node).__name__}")


@singledispatch
def printed_length(node: Node) -> int:
    """Return an upper bound on the length of a node's text. The rules are in `printing`."""
    raise TypeError(f"no length is registered for a {type(node).__name__}")


@shown.register
def _show_node(node: Node) -> str:
    return str(node)


def parts(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node, from left to right. A leaf has none."""
    return () if node.leaf else node.inner


def descend(node: Node, into: Callable[[Node], tuple[Node, ...]] = parts) -> Iterator[Node]:
    """Yield a node and all nodes below it, from left to right, each parent before its children."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(into(node))


def rebuilt(node: Kind, change: Callable[[Node], Node]) -> Kind:
    """Return the node with each of its parts replaced by the result of `change`."""
    changed: dict[str, Any] = {}
    for name in () if node.leaf else _fields(node):
        value = getattr(node, name)
        if isinstance(value, tuple):
            new: Any = tuple(change(v) if isinstance(v, Node) else v for v in value)
            same = all(map(_is, new, value))
        else:
            new = change(value) if isinstance(value, Node) else value
            same = new is value
        if not same:
            changed[name] = new
    return replace(node, **changed) if changed else node  # type: ignore[type-var]  # a dataclass


def _is(left: object, right: object) -> bool:
    return left is right


def _values(node: Node) -> tuple[Any, ...]:
    kind: Any = type(node)
    values: tuple[Any, ...] = _getter(kind)(node)
    return values


@cache
def _getter(kind: Any) -> Callable[[Node], Any]:
    """Return a function that reads all fields of a node of this class as a tuple."""
    names = tuple(kind.__dataclass_fields__)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple([getattr(node, name) for name in names])


def _fields(node: Node) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = type(node).__dataclass_fields__  # type: ignore[attr-defined]  # a dataclass
    return fields


def _refuse_beyond(nodes: int, depth: int, letters: int) -> None:
    """Raise TooLarge for a formula that exceeds one of the limits."""
    if nodes > MAX_NODES:
        raise TooLarge(f"the formula has {nodes} parts; {MAX_NODES} are allowed")
    if depth > MAX_DEPTH:
        raise TooLarge(f"the formula is nested {depth} deep; {MAX_DEPTH} are allowed")
    if letters > MAX_LENGTH:
        raise TooLarge(f"the formula has {letters} characters; {MAX_LENGTH} are allowed")
