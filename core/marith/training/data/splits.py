"""Which texts are learned from, which are held out, and in what order an epoch has them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from marith.errors import RequestError
from marith.training.data.labelled_texts import LabelledText


@dataclass(frozen=True, slots=True)
class Split:
    """The two parts. No text is in both, however often it is in the data."""

    learned: tuple[LabelledText, ...]
    held_out: tuple[LabelledText, ...]


def random_source(*parts: object) -> random.Random:
    """Random numbers that depend on these parts alone, in every process."""
    return random.Random(" ".join(map(str, parts)))  # noqa: S311 (texts, not secrets)


def class_names(rows: Sequence[LabelledText]) -> tuple[str, ...]:
    """The names of all labels, numbers by value and others by the alphabet.

    Raises RequestError for one class alone, and for names that differ in case alone.
    """
    names = set(dict.fromkeys(row.label for row in rows))
    if len(names) < 2:
        raise RequestError(
            f"all rows have the class {names.pop()!r}; a classifier needs two classes"
        )
    names_by_case: dict[str, str] = {}
    for name in sorted(names):
        other = names_by_case.setdefault(name.lower(), name)
        if other != name:
            raise RequestError(f"the labels {other!r} and {name!r} differ in their case alone")
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(sorted(names))


def split(rows: Sequence[LabelledText], share: float, seed: int) -> Split:
    """Hold out about `share` of every class's texts, and at least one.

    Raises RequestError for a class that has too few of them.
    """
    texts: dict[str, list[str]] = {row.label: [] for row in rows}
    for text, label in {row.text: row.label for row in reversed(rows)}.items():
        texts[label].append(text)
    held_out_texts: set[str] = set()
    for label, members in sorted(texts.items()):
        if len(members) < 2:
            raise RequestError(
                f"the class {label!r} has {len(members)} texts of its own, and needs two: one to "
                "learn from, one held out"
            )
        random_source(seed, "held out", label).shuffle(members)
        held_out_texts.update(members[: min(len(members) - 1, max(1, round(share * len(members))))])
    return Split(
        tuple(row for row in rows if row.text not in held_out_texts),
        tuple(row for row in rows if row.text in held_out_texts),
    )


def epoch(classes: Sequence[int], balance: bool, seed: int, number: int) -> list[int]:
    """The examples of one epoch by their places, shuffled; `classes` has the class of each.

    Balanced, every class has as many as the rarest: others than in the epoch before, of those
    that have more.
    """
    draw = random_source(seed, "epoch", number)
    places: dict[int, list[int]] = {}
    for place, example_class in enumerate(classes):
        places.setdefault(example_class, []).append(place)
    fewest = min(map(len, places.values()))
    chosen = [place for _, members in sorted(places.items())
              for place in (draw.sample(members, fewest) if balance else members)]  # fmt: skip
    draw.shuffle(chosen)
    return chosen


def epoch_size(classes: Sequence[int], balance: bool) -> int:
    """How many examples an epoch has."""
    counts = Counter(classes).values()
    return min(counts) * len(counts) if balance else sum(counts)
