"""Covered texts over the tokenizers of `byte_models`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from support.byte_models import hash_model

from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens


@cache
def sorted_tokens(kind: str) -> tuple[SortedTokens, CanonicalTokens]:
    """Return the tokens of a kind of tokenizer, and the canonical ones. They are made once."""
    vocabulary = hash_model(kind).vocabulary()
    tokens = SortedTokens(vocabulary)
    return tokens, CanonicalTokens(vocabulary, tokens)


def new_text(kind: str, before: Sequence[int] = ()) -> CoveredText:
    """Return an empty text after the tokens `before`."""
    tokens, canonical = sorted_tokens(kind)
    return CoveredText(tokens, canonical, before)
