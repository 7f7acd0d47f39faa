"""Two formulas' texts for the same prompts, in an order that the seed draws."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marith.errors import RequestError
from marith.evals.experiment.texts import Text, read_texts


@dataclass(frozen=True, slots=True)
class Pair:
    """Texts of `ours` and `theirs` for one prompt; `swapped` says that theirs comes first."""

    ours: Text
    theirs: Text
    swapped: bool

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Which pair it is."""
        return self.ours.line, self.theirs.line, self.ours.row, self.ours.sample

    @property
    def places(self) -> tuple[str, str]:
        """The texts as they are shown."""
        texts = self.ours.text, self.theirs.text
        return texts[::-1] if self.swapped else texts


def texts_by_formula(folders: Sequence[Path]) -> dict[str, list[Text]]:
    """The texts of all folders or files, by the name of their formula.

    Raises RequestError where one formula has two texts for a prompt and sample.
    """
    texts: dict[str, list[Text]] = {}
    seen = set[tuple[str, int, int]]()
    for folder in folders:
        for text in read_texts(folder):
            if text.key in seen:
                place = f"row {text.row}, sample {text.sample}"
                raise RequestError(f"{text.line!r} has two texts for {place}")
            seen.add(text.key)
            texts.setdefault(text.line, []).append(text)
    return texts


def paired(
    texts: dict[str, list[Text]], ours: str, theirs: str, seed: int
) -> tuple[list[Pair], int]:
    """The pairs of two formulas, and for how many prompts only one of them has a text.

    Raises RequestError for a formula without texts, and for texts that answer different prompts.
    """
    for name in (ours, theirs):
        if name not in texts:
            raise RequestError(f"no formula is called {name!r}; there are {', '.join(texts)}")
    if ours == theirs:
        raise RequestError(f"{ours!r} is compared with itself")
    others = {(text.row, text.sample): text for text in texts[theirs]}
    pairs = []
    for text in texts[ours]:
        other = others.get((text.row, text.sample))
        if other is None:
            continue
        if other.message != text.message:
            raise RequestError(
                f"{ours!r} and {theirs!r} answer different prompts in row {text.row}"
            )
        pairs.append(Pair(text, other, _swapped(seed, text, other)))
    if not pairs:
        raise RequestError(f"{ours!r} and {theirs!r} answer no prompt in common")
    return pairs, len(texts[ours]) + len(others) - 2 * len(pairs)


def _swapped(seed: int, ours: Text, theirs: Text) -> bool:
    """Whether theirs comes first: even odds, the same for the same seed and pair."""
    pair_seed = f"{seed} {ours.line} {theirs.line} {ours.row} {ours.sample}"
    return random.Random(pair_seed).random() < 0.5  # noqa: S311 (an order, no secret)
