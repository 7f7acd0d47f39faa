"""Smoothed n-grams: probabilities from the counts of the tokens after each context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.scorer import Proposal
from marith.scoring.terms.ngram_index import Corpus, Counted, GrowingText, distinct_counts

DISCOUNT = 0.75


class NGramCounts:
    """Counts of the tokens after each context of up to `order` − 1 tokens, smoothed.

    The method is absolute discounting with interpolation (Ney, Essen and Kneser, 1994). `DISCOUNT`
    is taken from each count. The distribution of the next shorter context gets this mass, and after
    the empty context the uniform distribution. The `holes` are numbers that are not tokens, and
    have probability 0. Raises ModelError for a token outside the vocabulary.
    """

    def __init__(
        self,
        order: int,
        vocab: int,
        texts: Iterable[Sequence[int]],
        holes: Sequence[int] = (),
    ) -> None:
        self.order = order
        self.vocab = vocab
        self._holes = list(holes)
        self._corpus = Corpus(order - 1, texts)
        if self._corpus.largest >= vocab:
            raise ModelError(
                f"an n-gram's text has token {self._corpus.largest}, outside the model's {vocab}"
            )
        # The estimate includes the cached results of contexts.
        self.nbytes = 4_000 + 2 * self._corpus.nbytes

    def logprobs(self, before: Sequence[int], own: GrowingText | None = None) -> Tensor:
        """Return log P(next | the last order − 1 tokens of `before`), [vocab].

        The counts of `own`, whose text is `before`, are added to the counts of the texts.
        """
        fitted = [self._corpus.counted(places) for places in self._corpus.contexts(before)]
        grown = [distinct_counts(followers) for followers in own.contexts()] if own else []
        probs = np.zeros(self.vocab, dtype=np.float32)
        # The longer contexts leave this mass to the shorter ones.
        left = 1.0
        for length in reversed(range(max(len(fitted), len(grown)))):
            tokens, counts = _added(
                [each[length] for each in (fitted, grown) if length < len(each)]
            )
            total = int(counts.sum())
            probs[tokens] += left / total * (counts - DISCOUNT)
            left *= DISCOUNT * len(tokens) / total
        probs += left / (self.vocab - len(self._holes))
        probs[self._holes] = 0.0
        return torch.from_numpy(probs).log_()

    def likeliest(self, before: Sequence[int], own: GrowingText | None = None) -> Proposal | None:
        """Return the token that followed the longest known context most often.

        Return None if only the empty context is known. The texts and `own` each name a token, by
        their own counts. The token after the longer context is returned. After equal contexts, it
        is the token with the higher confidence. If tokens have equal counts, the texts name the
        smallest token, and `own` the latest.
        """
        fitted, grown = self._corpus.contexts(before), own.contexts() if own else []
        longest = max(len(fitted), len(grown))
        if longest < 2:
            return None
        guesses: list[tuple[float, int]] = []
        if len(grown) == longest:
            # Of equal counts, `most_common` names the token that comes first: here, the latest.
            counts = Counter(reversed(grown[-1]))
            token, count = counts.most_common(1)[0]
            guesses.append(((count - DISCOUNT) / len(grown[-1]), token))
        if len(fitted) == longest:
            tokens, each = self._corpus.counted(fitted[-1])
            at = int(each.argmax())
            guesses.append((float(each[at] - DISCOUNT) / int(each.sum()), int(tokens[at])))
        confidence, token = max(guesses, key=lambda guess: guess[0])
        return Proposal(token, confidence, longest - 1)


def _added(counted: Sequence[Counted]) -> Counted:
    """Return the counts of one context, or the sum of two counts."""
    if len(counted) == 1:
        return counted[0]
    tokens, at = np.unique(np.concatenate([each for each, _ in counted]), return_inverse=True)
    counts = np.zeros(len(tokens), dtype=np.int64)
    np.add.at(counts, at, np.concatenate([each for _, each in counted]))
    return tokens, counts
