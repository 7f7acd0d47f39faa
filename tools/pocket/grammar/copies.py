"""Practise copying: replies that repeat parts of the request byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tools.pocket.grammar import words
from tools.pocket.grammar.chats import TOPICS
from tools.pocket.grammar.document import Document

_TABLE = words.table("copies.toml")
_VALUES: list[str] = _TABLE["values"].split()
_LONG: list[str] = _TABLE["long_values"].split()
_KEYS: list[str] = _TABLE["keys"].split()
_ROUNDS = (1, 1, 2, 2, 3, 4)

Exercise = tuple[str, str, str]


def _values(count: int, rng: Random) -> list[str]:
    """Draw different values, mostly of one kind."""
    kind = rng.choice(_VALUES)
    mixed = rng.random() < 0.4
    found: list[str] = []
    while len(found) < count:
        text = words.draw(rng.choice(_VALUES) if mixed else kind, rng)
        # A value that contains another would make the request ambiguous.
        if not any(text in other or other in text for other in found):
            found.append(text)
        elif rng.random() < 0.2:
            mixed = True
    return found


def _key(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(_KEYS)
    if kind < 0.65:
        return words.word(rng)
    return words.identifier(rng) if kind < 0.85 else words.camel(rng)


def _keys(count: int, rng: Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[_key(rng)] = None
    return list(found)


def _spoken(texts: list[str], quoted: bool, rng: Random) -> str:
    """Return texts one after another, in quotation marks of one sort or without."""
    mark = rng.choice(("'", '"')) if quoted or rng.random() < 0.4 else ""
    shown = [f"{mark}{text}{mark}" for text in texts]
    if len(shown) > 1 and rng.random() < 0.5:
        shown[-2:] = [f"{shown[-2]} and {shown[-1]}"]
    return ", ".join(shown)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pair(rng: Random) -> Exercise:
    """Draw one of the pairs of the table."""
    ask, reply = rng.choice(_TABLE["pairs"])
    x, y, z, w = _values(4, rng)
    if "{y}" not in ask and rng.random() < 0.4:
        x = words.draw(rng.choice(_LONG), rng)
    slots = {"x": x, "y": y, "z": z, "w": w}
    return f"pair/{x}", ask.format(**slots), reply.format(**slots)


def _listed(rng: Random) -> Exercise:
    values = _values(rng.randint(1, 5), rng)
    shown = _spoken(values, False, rng)
    return f"list/{values[0]}", rng.choice(_TABLE["lists"]).format(v=shown), _json(values)


def _keyed(rng: Random) -> Exercise:
    """Draw a request for a JSON object, which names its keys and values."""
    count = rng.choice((1, 2, 2, 2, 3, 4))
    keys, values = _keys(count, rng), _values(count, rng)
    if rng.random() < 0.5:
        sign = rng.choice(_TABLE["signs"])
        parts = [sign.format(k=key, v=value) for key, value in zip(keys, values, strict=True)]
        ask = rng.choice(_TABLE["assigned"]).format(a=rng.choice((", ", "; ", "\n")).join(parts))
    else:
        shown = _spoken(keys, rng.random() < 0.6, rng)
        ask = rng.choice(_TABLE["objects"]).format(k=shown, v=_spoken(values, False, rng))
    return f"object/{values[0]}", ask, _json(dict(zip(keys, values, strict=True)))


def _told(rng: Random) -> Exercise:
    """Draw a request for a JSON object with given keys, and facts of a topic as its values."""
    topic = rng.choice(TOPICS)
    keys = _keys(rng.choice((1, 2, 2, 2, 3)), rng)
    facts = rng.sample(topic.facts, min(len(keys), len(topic.facts)))
    name = words.capital(topic.name)
    said = {key: f"{name} {fact}." for key, fact in zip(keys[: len(facts)], facts, strict=True)}
    shown = _spoken(list(said), rng.random() < 0.7, rng)
    ask = rng.choice(_TABLE["told"]).format(t=topic.name, k=shown)
    return f"told/{topic.name}/{keys[0]}", ask, _json(said)


def _looked_up(rng: Random) -> Exercise:
    """Draw a request for the value of one key of a table."""
    count = rng.randint(2, 6)
    keys, values = _values(count, rng), _values(count, rng)
    sign = rng.choice((": ", " = ", " - ", " | ", "\t", " is "))
    table = rng.choice(("\n", "\n", "\n", "; ")).join(
        f"{key}{sign}{value}" for key, value in zip(keys, values, strict=True)
    )
    chosen = rng.randrange(count)
    slots = {"r": table, "k": keys[chosen], "v": values[chosen]}
    ask = rng.choice(_TABLE["tables"]).format(**slots)
    return f"table/{values[chosen]}", ask, rng.choice(_TABLE["looked_up"]).format(**slots)


_EXERCISES: tuple[Callable[[Random], Exercise], ...] = (
    *(_pair,) * 9,
    *(_listed,) * 2,
    *(_keyed,) * 4,
    _told,
    *(_looked_up,) * 4,
)


def draw(rng: Random) -> Document:
    """Draw a chat of one to four exercises. Each repeats something of its request."""
    rounds = [rng.choice(_EXERCISES)(rng) for _ in range(rng.choice(_ROUNDS))]
    messages = [{"role": "system", "content": rng.choice(_TABLE["systems"])}]
    if rng.random() < 0.8:
        messages = []
    for _, ask, reply in rounds:
        messages += [{"role": "user", "content": ask}, {"role": "assistant", "content": reply}]
    return Document("copy", rounds[0][0], tuple(messages))
