"""Terms that count instead of compute: smoothed n-grams, and the uniform distribution."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.formula.terms import NGram, Uniform
from marith.scoring.scorer import Message, Scored, Span
from marith.scoring.vocabulary import Vocabulary

DISCOUNT = 0.75


class NGramCounts:
    """Counts of an order's contexts and all shorter ones, smoothed to a proper distribution.

    Absolute discounting with interpolation (Ney, Essen and Kneser, 1994): each count gives up
    `DISCOUNT`, and what is given up goes to the next shorter context, last to the uniform.
    """

    def __init__(self, order: int, vocab: int, texts: Iterable[Sequence[int]]) -> None:
        self.order = order
        self.vocab = vocab
        counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for text in texts:
            for i, token in enumerate(text):
                for length in range(min(order - 1, i) + 1):
                    counts[tuple(text[i - length : i])][token] += 1
        self._seen = {
            context: (torch.tensor(list(c)), torch.tensor(list(c.values()), dtype=torch.float))
            for context, c in counts.items()
        }

    def logprobs(self, before: Sequence[int]) -> Tensor:
        """Log P(next | the last order − 1 tokens of `before`), [vocab]."""
        probs = torch.full((self.vocab,), 1.0 / self.vocab)
        longest = min(self.order - 1, len(before))
        for length in range(longest + 1):
            seen = self._seen.get(tuple(before[len(before) - length :]))
            if seen is None:
                break
            tokens, counts = seen
            total = counts.sum()
            probs = probs * (DISCOUNT * len(tokens) / total)
            probs[tokens] += (counts - DISCOUNT) / total
        return probs.log()


class NGramScorer:
    """Every n-gram term over one vocabulary; each is fitted once, when it is first read."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device | str = "cpu") -> None:
        self.vocabulary = vocabulary
        self.device = device
        self._fitted: dict[NGram, NGramCounts] = {}

    def read(self, term: NGram, messages: Sequence[Message]) -> tuple[int, ...]:
        """An n-gram reads the continuation alone. Raises ModelError if its file cannot be read."""
        if term not in self._fitted:
            end = sorted(self.vocabulary.eos_ids)[:1]
            texts = ([*self.vocabulary.encode(text), *end] for text in _texts(term))
            self._fitted[term] = NGramCounts(term.order, self.vocabulary.size, texts)
        return ()

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """Log-probabilities [count, vocab] of each span."""
        scored = []
        for span in spans:
            assert isinstance(span.term, NGram)
            counts, text = self._fitted[span.term], list(span.continuation)
            ends = range(len(text) - span.count + 1, len(text) + 1)
            rows = torch.stack([counts.logprobs(text[:end]) for end in ends])
            scored.append(Scored(rows.to(self.device)))
        return scored

    def release(self, lane: Hashable) -> None:
        """Nothing is kept by lane."""


class UniformScorer:
    """Every token alike."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device | str = "cpu") -> None:
        self.vocab = vocabulary.size
        self.device = device

    def read(self, term: Uniform, messages: Sequence[Message]) -> tuple[int, ...]:
        """Nothing is read."""
        return ()

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """−log V everywhere, [count, vocab]."""
        level = -math.log(self.vocab)
        return [
            Scored(torch.full((span.count, self.vocab), level, device=self.device))
            for span in spans
        ]

    def release(self, lane: Hashable) -> None:
        """Nothing is kept."""


def _texts(term: NGram) -> Iterable[str]:
    """One text a line of the file, or the texts given."""
    if term.path is None:
        return term.texts
    try:
        return Path(term.path).read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read the n-gram's text {term.path!r}: {error}") from None
