"""Random JSON schemas of the features that pydantic emits; every string in them has an end."""

from __future__ import annotations

import random
from typing import Any

NAMES = ("name", "größe", "年齢", "city", "is_open", "naïve", "цена", "tags", "e", "with space")
VALUES = ("red", "grün", "青", "été", "мир", "low", 'a "quoted" one', "ñandú", "🌍", "back\\slash")


def random_schema(seed: int) -> dict[str, Any]:
    """An object with nested ones, arrays, enums, unions, references and optional properties."""
    draw = random.Random(seed)
    schema = _object(draw, 2)
    schema["$defs"] = {"Part": _object(draw, 0), "Kind": _enum(draw)}
    schema["properties"]["part"] = {"$ref": "#/$defs/Part"}
    schema["required"].append("part")
    schema["title"] = f"Schema{seed}"
    return schema


def _any(draw: random.Random, depth: int) -> dict[str, Any]:
    kinds = [_string, _integer, _boolean, _enum, _nullable, _reference, _constant, _number]
    if depth:
        kinds += [_object, _array, _object, _array]
    made = draw.choice(kinds)
    return made(draw, depth - 1)


def _object(draw: random.Random, depth: int) -> dict[str, Any]:
    names = draw.sample(NAMES, draw.randint(1, 3))
    properties = {name: _any(draw, depth) for name in names}
    required = [name for name in names if draw.random() < 0.6]
    return {"type": "object", "properties": properties, "required": required}


def _array(draw: random.Random, depth: int) -> dict[str, Any]:
    least = draw.randint(0, 1)
    items = _any(draw, depth)
    return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}


def _string(draw: random.Random, _: int) -> dict[str, Any]:
    return {"type": "string", "minLength": draw.randint(0, 2), "maxLength": draw.randint(2, 9)}


def _integer(draw: random.Random, _: int) -> dict[str, Any]:
    low = draw.randint(-50, 50)
    bounds = {"minimum": low, "maximum": low + draw.randint(0, 500)}
    if draw.random() < 0.3:
        bounds = {"exclusiveMinimum": low, "exclusiveMaximum": low + draw.randint(2, 90)}
    return {"type": "integer", **bounds}


def _number(draw: random.Random, _: int) -> dict[str, Any]:
    return {"enum": [round(draw.uniform(-9, 9), 2) for _ in range(3)]}


def _boolean(_: random.Random, __: int) -> dict[str, Any]:
    return {"type": "boolean"}


def _enum(draw: random.Random, _: int = 0) -> dict[str, Any]:
    return {"type": "string", "enum": draw.sample(VALUES, draw.randint(1, 4))}


def _constant(draw: random.Random, _: int) -> dict[str, Any]:
    return {"const": draw.choice([*VALUES, 7, True])}


def _nullable(draw: random.Random, depth: int) -> dict[str, Any]:
    some = _any(draw, max(0, depth))
    return {"anyOf": [some, {"type": "null"}], "default": None}


def _reference(draw: random.Random, _: int) -> dict[str, Any]:
    return {"$ref": draw.choice(["#/$defs/Part", "#/$defs/Kind"])}
