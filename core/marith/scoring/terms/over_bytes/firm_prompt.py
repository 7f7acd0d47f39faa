"""How much of a prompt is read as tokens: as many as no later text can change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

_RECENT = 64  # prompts


@dataclass(frozen=True, slots=True)
class FirmPrompt:
    """The first tokens of a prompt, which stay whatever text follows, and the bytes after them.

    `before` has the last of these tokens that are text. The first tokens after the prompt are
    compared with the canonical ones together with them.
    """

    tokens: tuple[int, ...]
    tail: bytes
    before: Sequence[int]


class PromptSplitter:
    """Splits prompts of a model into firm tokens and bytes. Keeps the results of recent prompts."""

    def __init__(
        self, vocabulary: Vocabulary, tokens: SortedTokens, canonical: CanonicalTokens
    ) -> None:
        self._tokens, self._canonical = tokens, canonical
        self._special = vocabulary.special_ids | vocabulary.eos_ids
        self._start = vocabulary.start_id
        self.split = lru_cache(_RECENT)(self._split)

    def _split(self, prompt: tuple[int, ...]) -> FirmPrompt:
        """Split a prompt. The firm part is never empty, because a model reads no empty text."""
        first = max((i + 1 for i, token in enumerate(prompt) if token in self._special), default=0)
        firm = first + self._count(prompt[first:])
        if not firm and self._start is not None:
            return FirmPrompt((self._start,), self._tokens.bytes_of(prompt), ())
        firm = max(1, firm)
        before = self._canonical.last(prompt[first:firm])
        return FirmPrompt(prompt[:firm], self._tokens.bytes_of(prompt[firm:]), before)

    def _count(self, text: tuple[int, ...]) -> int:
        """Return how many tokens of a text stay, whatever follows it.

        A token that begins in the last bytes of the text and is longer may take their place. Then
        the tokens after its beginning may change. The last tokens alone are looked at if they are
        canonical by themselves, because a long text takes long to encode.
        """
        start, size = len(text), 0
        while start and size < 2 * self._tokens.longest:
            start -= 1
            size += len(self._tokens.bytes_of_token[text[start]])
        if start and self._canonical.has(text[start:]) and (own := self._stay(text[start:])):
            return start + own
        return self._stay(text)

    def _stay(self, text: tuple[int, ...]) -> int:
        data = self._tokens.bytes_of(text)
        firm = self._canonical.count_same(text, data, word_follows=True)
        for place in range(max(0, len(data) - self._tokens.longest), len(data)):
            if self._tokens.goes_beyond(data[place:]):
                firm = min(firm, self._canonical.count_same(text, data[:place]))
        return firm
