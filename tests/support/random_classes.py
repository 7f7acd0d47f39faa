"""Random classes of pydantic as applications write them, for structured answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from itertools import count
from typing import Annotated, Any, Literal

from hypothesis import strategies as st
from pydantic import BaseModel, Discriminator, Field, Tag, create_model
from typing_extensions import TypedDict


class Wind(StrEnum):
    CALM, GALE = "calm", "a <|end|> of a gale"


class Force(IntEnum):
    LOW, HIGH = 1, 12


class Place(TypedDict, total=False):
    at: Literal["sea", "land"]
    miles: Annotated[int, Field(ge=0, le=9)]


def kind_of(value: Any) -> Any:
    """Return the tag of an object, as a discriminator function does."""
    return value.get("kind") if isinstance(value, dict) else value.kind


class Chain(BaseModel):
    """A class with a field of its own type."""

    link: Literal["a", "b"] = "a"
    rest: Chain | None = None


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    size: Annotated[int, Field(ge=0, le=9)] = 1


class Twig(BaseModel):
    """A member of a union that has a field of the union's type."""

    kind: Literal["twig", "bough"] = "twig"
    of: Annotated[list[Branch], Field(max_length=1)] = []


Branch = Annotated[Leaf | Twig, Field(discriminator="kind")]
Twig.model_rebuild()


class Bark(BaseModel):
    kind: Literal["bark", "moss"] = "bark"
    old: bool = False


Chosen = Annotated[Leaf, Tag("small")] | Annotated[Bark, Tag("great")]


def size_of(value: Any) -> str:
    """Return the tag of a class of `Chosen`."""
    return "small" if kind_of(value) == "leaf" else "great"


class Tree(BaseModel):
    """Unions whose tag has a default: one is told apart by a field, and one by a function."""

    first: Annotated[Leaf | Bark, Field(discriminator="kind")]
    then: Annotated[Chosen, Discriminator(size_of)]


_number = count()
SIMPLE: list[tuple[Any, Any]] = [  # a type, and a default of it
    (bool, True),
    (Annotated[int, Field(ge=-3, le=12)], 3),
    (Annotated[float, Field(gt=0, lt=1)], 0.5),
    (Annotated[str, Field(max_length=3)], "é"),
    (Literal["a", 1, None], 1),
    (Wind, Wind.CALM),
    (Force, Force.HIGH),
    (Place, {}),
    (Chain, Chain()),
    (Branch, Leaf()),
    (tuple[Literal["x"], bool], ("x", False)),
    (Annotated[list[Wind], Field(max_length=2)], []),
    (Annotated[set[Force], Field(max_length=2)], set()),
    (dict[Literal["a", "b"], bool], {}),
]
Kind = tuple[Any, Any]


def object_of(fields: list[Kind], has_default: list[bool], tag: str | None = None) -> Any:
    """Return a class with these fields. Its tag has a default if its first field has one."""
    named: dict[str, Any] = {
        f"f{i}": (kind, default if has else ...)
        for i, ((kind, default), has) in enumerate(zip(fields, has_default, strict=False))
    }
    if tag is not None:
        named["kind"] = (Literal[tag], tag if has_default[0] else ...)
    return create_model(f"Class{next(_number)}", **named)


def objects(
    inner: st.SearchStrategy[Kind], tag: str | None = None
) -> st.SearchStrategy[type[BaseModel]]:
    flags = st.lists(st.booleans(), min_size=3, max_size=3)
    fields = st.lists(inner, min_size=1 if tag is None else 0, max_size=3)
    return st.builds(object_of, fields, flags, st.just(tag))


def union(first: Any, second: Any, told: str) -> Kind:
    """Return a union of two classes, told apart by a field, by a function, or not at all."""
    by_function: Callable[[Any], Any] = kind_of
    match told:
        case "field":
            return Annotated[first | second, Field(discriminator="kind")], ...
        case "function":
            tagged = Annotated[first, Tag("one")] | Annotated[second, Tag("two")]
            return Annotated[tagged, Discriminator(by_function)], ...
    return first | second | None, None


def kinds(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    unions = st.builds(
        union,
        objects(inner, "one"),
        objects(inner, "two"),
        st.sampled_from(["field", "function", "nothing"]),
    )
    return st.one_of(
        unions,
        unions,
        objects(inner).map(lambda made: (made, ...)),
        inner.map(lambda kind: (kind[0] | None, None)),
        inner.map(lambda kind: (Annotated[list[kind[0]], Field(max_length=2)], [])),
        st.tuples(inner, inner).map(lambda two: (tuple[two[0][0], two[1][0]], ...)),
    )


_simple = st.sampled_from(SIMPLE)
classes = objects(st.one_of(kinds(_simple), st.recursive(_simple, kinds, max_leaves=4)))
