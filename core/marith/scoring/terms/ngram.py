"""Smoothed n-grams: what followed each context in texts, and in a text that grows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marith.errors import ModelError, RequestError
from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import NGram
from marith.recent import Recent
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.passes.lanes import common
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Proposal, Scored, Span, WithoutContext

Counted: TypeAlias = "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]"

_OUTSIDE = -1  # what stands before a text begins
DISCOUNT = 0.75


class Followers(Protocol):
    """The tokens that followed one context."""

    @property
    def total(self) -> int:
        """How often the context was followed by anything."""
        ...

    @property
    def best(self) -> tuple[int, int]:
        """The token that followed most often, and how often."""
        ...

    def counted(self) -> Counted:
        """The distinct tokens that followed, [n], and how often each did, [n]."""
        ...


class Corpus:
    """What followed the contexts of up to `depth` tokens, in texts that are given once.

    All places are sorted by the tokens before them, read backwards. So a context's places stand
    together, and each older token narrows them. Counts are made when a context is first met.
    """

    def __init__(self, depth: int, texts: Iterable[Sequence[int]]) -> None:
        kept = [text for text in texts if len(text)]
        lengths = np.array([len(text) for text in kept], dtype=np.int64)
        self.depth = min(depth, int(lengths.max(initial=0)))
        self.largest = max((max(text) for text in kept), default=_OUTSIDE)
        # Each text stands behind `depth` empty places, so that no context reaches into another.
        empty = self.depth * np.repeat(np.arange(1, len(kept) + 1), lengths)
        places = (np.arange(len(empty)) + empty).astype(np.int32)
        tokens = np.full(len(places) + self.depth * len(kept), _OUTSIDE, dtype=np.int32)
        tokens[places] = [token for text in kept for token in text]
        older = [tokens[places - back] for back in range(self.depth, 0, -1)]
        self._places = places[np.lexsort(older)] if older else places
        self._tokens = tokens
        self._place_at, self._token_at = self._places.data, tokens.data  # quicker one by one
        self._root = _Places(self, 0, len(places))

    @property
    def nbytes(self) -> int:
        """What the texts and their sorted places weigh."""
        return self._tokens.nbytes + self._places.nbytes

    def contexts(self, before: Sequence[int]) -> list[Followers]:
        """The known contexts at the end of `before`: the empty one, then one token longer each."""
        place = self._root
        contexts: list[Followers] = [place] if place.total else []
        for back in range(1, min(self.depth, len(before)) + 1):
            token = before[-back]
            narrower = place.narrower.get(token) or self._narrowed(place, back, token)
            if narrower is None:
                break
            place = narrower
            contexts.append(place)
        return contexts

    def _narrowed(self, context: _Places, back: int, token: int) -> _Places | None:
        """Those places of a context that have `token` so many places before them."""

        def older(place: int) -> int:
            return self._token_at[place - back]

        low, high = context.low, context.high
        low = bisect_left(self._place_at, token, low, high, key=older)
        high = bisect_right(self._place_at, token, low, high, key=older)
        if low == high:
            return None
        context.narrower[token] = narrower = _Places(self, low, high)
        return narrower

    def counted(self, low: int, high: int) -> Counted:
        """The distinct tokens at some of the sorted places, in order, and their counts."""
        tokens, counts = np.unique(self._tokens[self._places[low:high]], return_counts=True)
        return tokens.astype(np.int64), counts.astype(np.int64)

    def best(self, low: int, high: int) -> tuple[int, int]:
        """The token most often at some of the sorted places, the smallest of several."""
        if high - low == 1:
            return self._token_at[self._place_at[low]], 1
        tokens, counts = self.counted(low, high)
        at = int(counts.argmax())
        return int(tokens[at]), int(counts[at])


class _Places:
    """Where one context of a corpus occurs, among its sorted places; `Followers`."""

    __slots__ = ("_best", "_corpus", "_counted", "high", "low", "narrower")

    def __init__(self, corpus: Corpus, low: int, high: int) -> None:
        self._corpus = corpus
        self.low, self.high = low, high
        self.narrower: dict[int, _Places] = {}
        self._counted: Counted | None = None
        self._best: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        return self.high - self.low

    @property
    def best(self) -> tuple[int, int]:
        if self._best is None:
            self._best = self._corpus.best(self.low, self.high)
        return self._best

    def counted(self) -> Counted:
        if self._counted is None:
            self._counted = self._corpus.counted(self.low, self.high)
        return self._counted


class GrowingText:
    """What followed the contexts of up to `depth` tokens, in one text that grows and shrinks.

    Changes state: a token more or a token less costs one small step for each length of context.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.text: list[int] = []
        self._reading: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], _Stack] = {}

    def become(self, reading: tuple[int, ...], continuation: Sequence[int]) -> None:
        """Be this text, from the longest beginning that it shares with the present one."""
        if reading is not self._reading and reading != self._reading:
            self._shrink(0)
            self._reading = reading
        start, asked = len(reading), list(continuation)
        if len(self.text) < start:
            self._grow(reading[len(self.text) :])
        same = common(self.text[start:], asked)
        self._shrink(start + same)
        self._grow(asked[same:])

    def add(self, token: int) -> None:
        """One token more."""
        followers = self._followers
        for context in self._ends():
            stack = followers.get(context)
            if stack is None:
                followers[context] = _Stack(token)
            else:
                stack.push(token)
        self.text.append(token)

    def contexts(self) -> list[Followers]:
        """The known contexts at the text's end: the empty one, then one token longer each."""
        contexts: list[Followers] = []
        for context in self._ends():
            stack = self._followers.get(context)
            if stack is None:
                break
            contexts.append(stack)
        return contexts

    def _grow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.add(token)

    def _shrink(self, size: int) -> None:
        """Take back, in reverse order, what `add` did."""
        followers = self._followers
        while len(self.text) > size:
            token = self.text.pop()
            for context in self._ends():
                stack = followers[context]
                if stack.total == 1:
                    del followers[context]
                else:
                    stack.pop(token)

    def _ends(self) -> list[tuple[int, ...]]:
        """The text's last tokens: none of them, then one more each, up to `depth`."""
        last = tuple(self.text[-self.depth :]) if self.depth else ()
        return [last[start:] for start in range(len(last), -1, -1)]


class _Stack:
    """What followed one context of a growing text, the last to come the first to go; `Followers`.

    Of tokens that followed equally often, the one seen last is best.
    """

    __slots__ = ("_bests", "_counts")

    def __init__(self, token: int) -> None:
        self._bests = [(token, 1)]  # the best after each push
        self._counts: dict[int, int] | None = None  # made for the second: most have but one

    @property
    def total(self) -> int:
        return len(self._bests)

    @property
    def best(self) -> tuple[int, int]:
        return self._bests[-1]

    def push(self, token: int) -> None:
        if self._counts is None:
            self._counts = {self._bests[0][0]: 1}
        self._counts[token] = count = self._counts.get(token, 0) + 1
        best = self._bests[-1]
        self._bests.append(best if best[1] > count else (token, count))

    def pop(self, token: int) -> None:
        """Take back the last push; the first is taken back by dropping the whole."""
        assert self._counts is not None, "made by the second push"
        self._bests.pop()
        self._counts[token] -= 1
        if not self._counts[token]:
            del self._counts[token]

    def counted(self) -> Counted:
        counts = self._counts or {self._bests[0][0]: 1}
        tokens = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
        return tokens, np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


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
