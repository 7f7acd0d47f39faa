"""Smoothed n-grams: the tokens that followed each context, in fixed texts and in a growing text."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from marith.errors import ModelError, RequestError, shown
from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import NGram
from marith.recent import Recent
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.passes.lanes import common
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Proposal, Scored, Span, WithoutContext
from marith.scoring.weights.locate import FileTimes, file_times

_log = logging.getLogger(__name__)
Counted: TypeAlias = "tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]"  # tokens; their counts
Places: TypeAlias = "tuple[int, int]"  # first of a corpus's sorted places; one past the last

_OUTSIDE = -1  # in place of a token before the beginning of a text
_KEPT = 4096  # contexts of a corpus whose results are cached
DISCOUNT = 0.75


class Corpus:
    """The tokens that followed each context of up to `depth` tokens, in fixed texts.

    All places are sorted by the token just before them, then by the token before that one, and so
    on. So the places that follow a context are adjacent, and each older token selects a part of
    them. Results for the contexts used last are cached.
    """

    def __init__(self, depth: int, texts: Iterable[Sequence[int]]) -> None:
        kept = [text for text in texts if len(text)]
        lengths = np.array([len(text) for text in kept], dtype=np.int64)
        self.depth = min(depth, int(lengths.max(initial=0)))
        self.largest = max((max(text) for text in kept), default=_OUTSIDE)
        # `depth` empty places precede each text, so that no context reaches into another text.
        empty = self.depth * np.repeat(np.arange(1, len(kept) + 1), lengths)
        places = (np.arange(len(empty)) + empty).astype(np.int32)
        tokens = np.full(len(places) + self.depth * len(kept), _OUTSIDE, dtype=np.int32)
        tokens[places] = [token for text in kept for token in text]
        older = [tokens[places - back] for back in range(self.depth, 0, -1)]
        self._places = places[np.lexsort(older)] if older else places
        self._tokens = tokens
        self._place_at, self._token_at = self._places.data, tokens.data  # faster for single items
        self._narrowed = lru_cache(maxsize=_KEPT)(self._narrow)
        self.counted = lru_cache(maxsize=_KEPT)(self._count)

    @property
    def nbytes(self) -> int:
        """The bytes of the texts and of their sorted places."""
        return self._tokens.nbytes + self._places.nbytes

    def contexts(self, before: Sequence[int]) -> list[Places]:
        """Return the places of the known contexts at the end of `before`.

        The empty context comes first. Each further context is one token longer.
        """
        places = 0, len(self._places)
        contexts = [places] if len(self._places) else []
        for back in range(1, min(self.depth, len(before)) + 1):
            places = self._narrowed(places, back, before[-back])
            if places[0] == places[1]:
                break
            contexts.append(places)
        return contexts

    def _narrow(self, places: Places, back: int, token: int) -> Places:
        """Return the part of `places` for which the token `back` positions earlier is `token`."""

        def older(place: int) -> int:
            return self._token_at[place - back]

        low = bisect_left(self._place_at, token, *places, key=older)
        return low, bisect_right(self._place_at, token, low, places[1], key=older)

    def _count(self, places: Places) -> Counted:
        """Return the distinct tokens at some places, in order, and the count of each."""
        return _counted(self._tokens[self._places[slice(*places)]])


class GrowingText:
    """The tokens that followed each context of up to `depth` tokens, in a text whose end changes.

    Changes state. Adding or removing a token takes one small step for each length of context.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.text: list[int] = []
        self._reading: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], array[int]] = {}

    def become(self, reading: tuple[int, ...], continuation: Sequence[int]) -> None:
        """Make the text `reading` and `continuation`, keeping the common prefix."""
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
        """Append a token."""
        for context in self._ends():
            followers = self._followers.get(context)
            if followers is None:
                self._followers[context] = array("i", (token,))
            else:
                followers.append(token)
        self.text.append(token)

    def contexts(self) -> list[array[int]]:
        """Return the tokens that followed each known context at the text's end, in text order.

        The empty context comes first. Each further context is one token longer.
        """
        known = takewhile(self._followers.__contains__, self._ends())
        return [self._followers[context] for context in known]

    def _grow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.add(token)

    def _shrink(self, size: int) -> None:
        """Undo `add`, in reverse order, until the text has `size` tokens."""
        while len(self.text) > size:
            self.text.pop()
            for context in self._ends():
                followers = self._followers[context]
                followers.pop()
                if not followers:
                    del self._followers[context]

    def _ends(self) -> list[tuple[int, ...]]:
        """Return the contexts at the end of the text: of no tokens, then of one token more each."""
        last = tuple(self.text[-self.depth :]) if self.depth else ()
        return [last[start:] for start in range(len(last), -1, -1)]


class NGramCounts:
    """Counts of the tokens after each context of up to `order` − 1 tokens, smoothed.

    Absolute discounting with interpolation (Ney, Essen and Kneser, 1994): each count gives up
    `DISCOUNT`. The next shorter context gets this mass, and the uniform distribution gets the last
    of it. The `holes` are numbers that are not tokens, and have probability 0. Raises ModelError
    for a token outside the vocabulary.
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
        # An estimate of the bytes, with the cached results of contexts.
        self.nbytes = 4_000 + 2 * self._corpus.nbytes

    def logprobs(self, before: Sequence[int], own: GrowingText | None = None) -> Tensor:
        """Return log P(next | the last order − 1 tokens of `before`), [vocab].

        The counts of `own`, whose text is `before`, are added to the counts of the texts.
        """
        fitted = [self._corpus.counted(places) for places in self._corpus.contexts(before)]
        grown = [_counted(followers) for followers in own.contexts()] if own else []
        probs = np.zeros(self.vocab, dtype=np.float32)
        left = 1.0  # the mass that the longer contexts give up
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

        Return None if only the empty context is known. The texts and `own` are looked up
        separately. The longer context wins, or else the higher confidence. Of tokens with equal
        counts, the texts give the smallest token, and `own` gives the latest.
        """
        fitted, grown = self._corpus.contexts(before), own.contexts() if own else []
        longest = max(len(fitted), len(grown))
        if longest < 2:
            return None
        guesses: list[tuple[float, int]] = []
        if len(grown) == longest:
            counts = Counter(reversed(grown[-1]))
            token, count = counts.most_common(1)[0]
            guesses.append(((count - DISCOUNT) / len(grown[-1]), token))
        if len(fitted) == longest:
            tokens, each = self._corpus.counted(fitted[-1])
            at = int(each.argmax())
            guesses.append((float(each[at] - DISCOUNT) / int(each.sum()), int(tokens[at])))
        confidence, token = max(guesses, key=lambda guess: guess[0])
        return Proposal(token, confidence, longest - 1)


class NGramScorer(WithoutContext):
    """Scores all n-gram terms over one vocabulary. A term is fitted when it is first read.

    `recent` decides how many fitted terms are kept. An answer depends only on its span. For an
    online term the scorer keeps an index of each lane's text, and removes the part that the next
    span does not repeat.
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
        self._fitted: WeakValueDictionary[tuple[NGram, FileTimes], NGramCounts] = (
            WeakValueDictionary()
        )
        self._own: dict[Hashable, GrowingText] = {}

    def read(self, term: NGram, prompt: Prompt) -> tuple[int, ...]:
        """Return the bare model's prompt for an online term, and no tokens for other terms.

        Raises RequestError for an invalid prompt.
        """
        if not term.online:
            return ()
        tokens = to_tokens(BARE_MODEL, prompt, self.vocabulary)
        if max(tokens) >= self.vocabulary.size:
            raise RequestError(
                f"the prompt has token {max(tokens)}, which is not in the vocabulary"
            )
        return tuple(tokens)

    def loaded(self, term: NGram) -> NGramCounts:
        """Return the term's counts. Raises ModelError if its file cannot be read."""
        key = term, file_times(term.path)
        counts = self._fitted.get(key)
        if counts is None:
            end = sorted(self.vocabulary.eos_ids)[:1]
            texts = ([*self.vocabulary.encode(text), *end] for text in _texts(term))
            vocabulary = self.vocabulary
            counts = NGramCounts(term.order, vocabulary.size, texts, vocabulary.holes)
            counts = self._fitted.setdefault(key, counts)  # another thread may have been first
        return self._kept(term, counts)

    def fitted(self, term: NGram) -> NGramCounts:
        """Return the term's counts. Raises KeyError if they must be fitted, or fitted anew."""
        if term.path is None and not term.texts:  # it has nothing to read
            return self.loaded(term)
        return self._kept(term, self._fitted[term, file_times(term.path)])

    def _kept(self, term: NGram, counts: NGramCounts) -> NGramCounts:
        self._recent.use(counts, counts.nbytes, term if term.path else None)
        return counts

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """Return log-probabilities [count, vocab] of each span."""
        return [Scored.of(self._rows(span).to(self.device)) for span in spans]

    def propose(self, span: Span, limit: int) -> list[Proposal]:
        """Return at most `limit` tokens that may follow the span, each given the tokens before it.

        The list ends where no context is known, and after a token that ends a text. The span's lane
        is kept until it is released, as in `score`. The span's `count` is not used.
        """
        counts = self._counts_of(span)
        text, own = self._before(span, len(span.continuation))
        proposals: list[Proposal] = []
        for _ in range(limit):
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
        """Drop the text of a lane."""
        self._own.pop(lane, None)

    def _rows(self, span: Span) -> Tensor:
        """Return log-probabilities [count, vocab], on the CPU."""
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
        return span.loaded if isinstance(span.loaded, NGramCounts) else self.loaded(span.term)

    def _before(self, span: Span, end: int) -> tuple[list[int], GrowingText | None]:
        """Return the text before `end` in the continuation, and an online term's own counts."""
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


def _counted(tokens: array[int] | npt.NDArray[np.int32]) -> Counted:
    """Return the distinct tokens in order, and the count of each."""
    distinct, counts = np.unique(np.asarray(tokens), return_counts=True)
    return distinct, counts


def _added(counted: Sequence[Counted]) -> Counted:
    """Return the counts of one context, or the sum of two counts."""
    if len(counted) == 1:
        return counted[0]
    tokens, at = np.unique(np.concatenate([each for each, _ in counted]), return_inverse=True)
    counts = np.zeros(len(tokens), dtype=np.int64)
    np.add.at(counts, at, np.concatenate([each for _, each in counted]))
    return tokens, counts


def _append(text: list[int], own: GrowingText | None, token: int) -> None:
    """Append a token, and count it too if there is an `own` text."""
    if own is None:
        text.append(token)
    else:
        own.add(token)


def _texts(term: NGram) -> Iterable[str]:
    """Return the lines of the term's file, or the term's own texts."""
    if term.path is None:
        return term.texts
    try:
        lines = Path(term.path).expanduser().read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"cannot read the n-gram's text {term.path!r}: {error}") from None
    if not any(map(str.strip, lines)):
        _log.warning("the n-gram's text %s is empty, so its term knows no word", shown(term.path))
    return lines
