"""Compare a model's vocabulary with the base model's: the tokens that both share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marith.scoring.prompting.tokenizer import Vocabulary

# Vocabularies that differ in this share of the tokens or more are refused.
MANY = 0.01


@dataclass(frozen=True, eq=False)
class SharedTokens:
    """The tokens that a model shares with the base model: equal ids with equal texts.

    `base` and `own` are the vocabularies of the base model and of the model. `different` has the
    ids with different texts, and `ordinary` those that are a piece of ordinary text in one of the
    vocabularies. A term of the model is silent on the base model's tokens in `lacking`. All tokens
    that end a text of the model, `own_ends`, are one event: the first of the base model's `ends`.
    Compared by identity.
    """

    base: Vocabulary
    own: Vocabulary
    different: tuple[int, ...]
    ordinary: tuple[int, ...]
    ends: tuple[int, ...]
    own_ends: tuple[int, ...]
    lacking: tuple[int, ...]

    @classmethod
    def of(cls, base: Vocabulary, own: Vocabulary) -> SharedTokens | None:
        """Compare two vocabularies. Return None if they are equal."""
        if base.fingerprint == own.fingerprint:
            return None
        texts, own_texts = base.texts, own.texts
        every = range(max(base.size, own.size))
        different = tuple(token for token in every if texts.get(token) != own_texts.get(token))
        added, own_added = base.added_ids, own.added_ids
        ordinary = tuple(
            token
            for token in different
            if (token in texts and token not in added)
            or (token in own_texts and token not in own_added)
        )
        ends = _known(base.eos_ids, base)
        # An end of the base model ends every text, whatever the token is to the model.
        alike = base.eos_ids.difference(different)
        own_ends = _known(own.eos_ids | alike, own) if ends else ()
        lacking = {*different, *ends, *own_ends}.difference(ends[:1] if own_ends else ())
        of_base = tuple(sorted(token for token in lacking if token < base.size))
        return cls(base, own, different, ordinary, ends, own_ends, of_base)

    @property
    def too_few(self) -> bool:
        """True if the vocabularies differ too much for terms of one formula."""
        return bool(self.ordinary) or len(self.different) >= MANY * self.base.size

    def first_difference(self, name: str, base: str) -> str:
        """Return in words how many tokens differ between two named models, and the first of them.

        A piece of ordinary text comes first.
        """
        first = (self.ordinary or self.different)[0]
        texts = [vocabulary.texts.get(first) for vocabulary in (self.own, self.base)]
        here, there = ("no token" if text is None else repr(text) for text in texts)
        every = max(self.own.size, self.base.size)
        count = f"{len(self.different):,} of {every:,} tokens differ"
        return f"{count}, such as token {first}: {here} in {name!r}, {there} in {base!r}"

    def sentence(self, name: str, base: str) -> str:
        """Return a sentence about the tokens that differ between two named models."""
        if self.too_few:
            difference = self.first_difference(name, base)
            return f"{difference}: only an engine over bytes has formulas with terms of both"
        if not self.different:
            return f"{name!r} has the tokens of {base!r}"
        difference = self.first_difference(name, base)
        return f"{difference}; on such a token, only the other terms of a formula count"

    def read(self, tokens: Sequence[int]) -> list[int]:
        """Return tokens of the base model as the model reads them.

        A token that the model lacks is read by its id, or as the unknown token if the model has no
        such id.
        """
        width, unknown = self.own.width, self.own.unknown_id
        return [token if token < width else unknown for token in tokens]


def _known(tokens: frozenset[int], vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the tokens that a vocabulary has, in order."""
    return tuple(sorted(token for token in tokens if token < vocabulary.size))
