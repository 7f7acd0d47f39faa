"""Terms that count instead of compute: smoothed n-grams, and the uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from marith.errors import ModelError, RequestError
from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import NGram, Uniform
from marith.recent import Recent
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Proposal, Scored, Span, WithoutContext
from marith.scoring.terms.counting.ngram_index import Corpus, Counted, Followers, GrowingText

DISCOUNT = 0.75


class NGramCounts:
    """Counts of an order's contexts and all shorter ones, smoothed to a proper distribution.

    Absolute discounting with interpolation (Ney, Essen and Kneser, 1994): each count gives up
    `DISCOUNT`, and what is given up goes to the next shorter context, last to the uniform.
    Numbers that are no tokens, `holes`, have no probability. Raises ModelError for a token outside
    the vocabulary.
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
        # What it weighs, with what is remembered of the contexts that texts meet.
        self.nbytes = 4_000 + 2 * self._corpus.nbytes

    def logprobs(self, before: Sequence[int], own: GrowingText | None = None) -> Tensor:
        """Log P(next | the last order − 1 tokens of `before`), [vocab].

        With `own`, whose text is `before`, its counts are added to those of the texts.
        """
        fitted, grown = self._known(before, own)
        probs = np.zeros(self.vocab, dtype=np.float32)
        left = 1.0  # what the longer contexts give up
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
        """What followed the longest known context most often; None where only the empty is known.

        The texts and `own` are asked apart: the longer context decides, or else the surer.
        """
        fitted, grown = self._known(before, own)
        longest = max(len(fitted), len(grown))
        if longest < 2:
            return None
        guess = None
        for contexts in (grown, fitted):
            if len(contexts) == longest:
                token, count = contexts[-1].best
                confidence = (count - DISCOUNT) / contexts[-1].total
                if guess is None or confidence > guess.confidence:
                    guess = Proposal(token, confidence, longest - 1)
        return guess

    def _known(
        self, before: Sequence[int], own: GrowingText | None
    ) -> tuple[list[Followers], list[Followers]]:
        """The contexts that the texts know, and those that `own` knows, shortest first."""
        return self._corpus.contexts(before), own.contexts() if own is not None else []


class NGramScorer(WithoutContext):
    """Every n-gram term over one vocabulary, fitted when it is first read, `recent` ones kept.

    A pure function of its spans: an online term keeps the text of each lane, indexed, and takes
    back what a span does not repeat.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device | str = "cpu",
        recent: Recent | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.device = device
        self._recent = recent or Recent(LOADED_BYTES)
        self._fitted: WeakValueDictionary[NGram, NGramCounts] = WeakValueDictionary()
        self._own: dict[Hashable, GrowingText] = {}

    def read(self, term: NGram, prompt: Prompt) -> tuple[int, ...]:
        """An n-gram reads the continuation alone; an online one the bare model's prompt as well.

        Raises ModelError if its file cannot be read, RequestError for a prompt that cannot.
        """
        self.loaded(term)
        if not term.online:
            return ()
        tokens = to_tokens(BARE_MODEL, prompt, self.vocabulary)
        if max(tokens) >= self.vocabulary.size:
            raise RequestError(f"the prompt has token {max(tokens)}, which the model does not know")
        return tuple(tokens)

    def loaded(self, term: NGram) -> NGramCounts:
        """The term's counts. Raises ModelError if its file cannot be read."""
        counts = self._fitted.get(term)
        if counts is None:
            end = sorted(self.vocabulary.eos_ids)[:1]
            texts = ([*self.vocabulary.encode(text), *end] for text in _texts(term))
            vocabulary = self.vocabulary
            counts = NGramCounts(term.order, vocabulary.size, texts, vocabulary.holes)
            counts = self._fitted.setdefault(term, counts)  # another thread may have been first
        self._recent.use(counts, counts.nbytes)
        return counts

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """Log-probabilities [count, vocab] of each span."""
        return [Scored.of(self._rows(span).to(self.device)) for span in spans]

    def propose(self, span: Span, most: int) -> list[Proposal]:
        """At most `most` tokens that may follow the span's text, each given those before it.

        Ends where no context is known, and after a token that ends a text. The span's lane is
        kept until it is released, as in `score`; its `count` plays no part.
        """
        counts = self._counts_of(span)
        text, own = self._before(span, len(span.continuation))
        proposals: list[Proposal] = []
        for _ in range(most):
            if proposals:
                _append(text, own, proposals[-1].token)
            proposal = counts.likeliest(text, own)
            if proposal is None:
                break
            proposals.append(proposal)
            if proposal.token in self.vocabulary.eos_ids:
                break
        return proposals

    def release(self, lane: Hashable) -> None:
        """The lane's text is forgotten."""
        self._own.pop(lane, None)

    def _rows(self, span: Span) -> Tensor:
        """Log-probabilities [count, vocab], on the CPU."""
        counts = self._counts_of(span)
        first = len(span.continuation) - span.count + 1
        text, own = self._before(span, first)
        rows = [counts.logprobs(text, own)]
        for token in span.continuation[first:]:
            _append(text, own, token)
            rows.append(counts.logprobs(text, own))
        return torch.stack(rows)

    def _counts_of(self, span: Span) -> NGramCounts:
        assert isinstance(span.term, NGram)
        return self.loaded(span.term)  # here, unless two threads made it and one was forgotten

    def _before(self, span: Span, end: int) -> tuple[list[int], GrowingText | None]:
        """The text up to a place in the continuation, and its own counts if the term is online."""
        assert isinstance(span.term, NGram)
        assert isinstance(span.reading, tuple)
        depth = span.term.order - 1
        if not span.term.online:
            return list(span.continuation[max(0, end - depth) : end]), None
        own = self._own.get(span.lane)
        if own is None or own.depth != depth:
            own = self._own[span.lane] = GrowingText(depth)
        own.become(span.reading, span.continuation[:end])
        return own.text, own


class UniformScorer(WithoutContext):
    """Every token alike."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device | str = "cpu") -> None:
        tokens = vocabulary.size - len(vocabulary.holes)
        row = torch.full((vocabulary.size,), -math.log(tokens))
        row[list(vocabulary.holes)] = -math.inf
        self._row = row.to(device)

    def read(self, term: Uniform, prompt: Prompt) -> tuple[int, ...]:
        """Nothing is read."""
        return ()

    def loaded(self, term: Uniform) -> None:
        """Nothing is needed."""

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """−log V for each of the V tokens, [count, vocab]."""
        return [Scored.of(self._row.repeat(span.count, 1)) for span in spans]

    def release(self, lane: Hashable) -> None:
        """Nothing is kept."""


def _added(contexts: Sequence[Followers]) -> Counted:
    """The counts of one context, or of two added up: distinct tokens, and how often each."""
    tokens, counts = contexts[0].counted()
    if len(contexts) == 1:
        return tokens, counts
    more, again = contexts[1].counted()
    at = np.searchsorted(tokens, more)  # a corpus counts its tokens in order
    both = tokens[np.minimum(at, len(tokens) - 1)] == more
    counts = counts.copy()
    counts[at[both]] += again[both]
    return np.concatenate([tokens, more[~both]]), np.concatenate([counts, again[~both]])


def _append(text: list[int], own: GrowingText | None, token: int) -> None:
    """One token more; what is online counts it too."""
    if own is None:
        text.append(token)
    else:
        own.add(token)


def _texts(term: NGram) -> Iterable[str]:
    """One text a line of the file, or the texts given."""
    if term.path is None:
        return term.texts
    try:
        return Path(term.path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read the n-gram's text {term.path!r}: {error}") from None
