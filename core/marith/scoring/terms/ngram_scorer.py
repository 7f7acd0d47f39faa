"""The scorer of n-gram terms, which fits their counts and follows the text of each lane."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from marith.errors import ModelError, shown
from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import NGram
from marith.lru import WeightedLRU
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Proposal, WithoutContext
from marith.scoring.terms.ngram_counts import NGramCounts
from marith.scoring.terms.ngram_index import GrowingText
from marith.scoring.weights.locate import FileTimes, file_times
from marith.tensor_rows import rows_of

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class _NGramLane(RequestLane):
    """The lane of an n-gram, with the `counts` of its term.

    For an online term, `own` has the counts of the lane's own text; for other terms, it is None.
    """

    counts: NGramCounts
    own: GrowingText | None


class NGramScorer(WithoutContext):
    """The scorer of all n-gram terms over one vocabulary. A term is fitted at its first use.

    `recent` decides how many fitted terms are kept. An answer depends only on its span. The lane of
    an online term keeps an index of its text, and truncates it to the prefix that it has in common
    with the text of the next span.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device | str = "cpu",
        recent: WeightedLRU | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.device = device
        self._recent = recent or WeightedLRU(LOADED_BYTES)
        self._fitted: WeakValueDictionary[tuple[NGram, FileTimes], NGramCounts] = (
            WeakValueDictionary()
        )

    def read(self, term: NGram, prompt: Prompt) -> tuple[int, ...]:
        """Return the bare model's prompt for an online term, and no tokens for other terms.

        Raises RequestError for an invalid prompt.
        """
        if not term.online:
            return ()
        tokens = to_tokens(BARE_MODEL, prompt, self.vocabulary)
        self.vocabulary.require_known(tokens, "the prompt")
        return tuple(tokens)

    def load(self, term: NGram) -> NGramCounts:
        """Return the term's counts. Raises ModelError if its file cannot be read."""
        key = term, file_times(term.path)
        counts = self._fitted.get(key)
        if counts is None:
            # Each text gets its end, so that the n-gram learns where texts end.
            end = sorted(self.vocabulary.eos_ids)[:1]
            texts = ([*self.vocabulary.encode(text), *end] for text in _texts(term))
            vocabulary = self.vocabulary
            counts = NGramCounts(term.order, vocabulary.size, texts, vocabulary.holes)
            # Another thread may have fitted the term first.
            counts = self._fitted.setdefault(key, counts)
        return self._kept(term, counts)

    def find(self, term: NGram) -> NGramCounts:
        """Return the term's counts. Raises KeyError if they must be fitted, or fitted again."""
        # A term with neither a file nor texts is fitted at once, because there is nothing to read.
        if term.path is None and not term.texts:
            return self.load(term)
        return self._kept(term, self._fitted[term, file_times(term.path)])

    def open(
        self, terms: Sequence[NGram], reading: Reading, salt: str | None, loaded: NGramCounts
    ) -> RequestLane:
        """Return the lane of a request's text. `loaded` are the term's counts."""
        [term] = terms
        own = GrowingText(term.order - 1) if term.online else None
        return _NGramLane(reading, salt, counts=loaded, own=own)

    def _kept(self, term: NGram, counts: NGramCounts) -> NGramCounts:
        self._recent.use(counts, counts.nbytes, term if term.path else None)
        return counts

    def score(self, spans: Sequence[Span]) -> list[Answer]:
        """Return log-probabilities [count, vocab] of each span."""
        return [Answer(rows_of(self._rows(span).to(self.device))) for span in spans]

    def propose(self, span: Span, limit: int) -> list[Proposal]:
        """Return at most `limit` tokens that may follow the span, each given the tokens before it.

        The list ends before a token whose context is unknown, and after a token that ends a text.
        The `count` of the span is not used.
        """
        counts, text, own = _before(span, len(span.continuation))
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

    def _rows(self, span: Span) -> Tensor:
        """Return log-probabilities [count, vocab], on the CPU."""
        first = len(span.continuation) - span.count + 1
        counts, text, own = _before(span, first)
        rows = [counts.logprobs(text, own)]
        for token in span.continuation[first:]:
            _append(text, own, token)
            rows.append(counts.logprobs(text, own))
        return torch.stack(rows)


def _before(span: Span, end: int) -> tuple[NGramCounts, list[int], GrowingText | None]:
    """Return the term's counts, the text before `end` in the continuation, and the text's counts.

    The text's counts are None if the term is not online.
    """
    assert isinstance(span.lane, _NGramLane)
    counts, own = span.lane.counts, span.lane.own
    # No context has more than order − 1 tokens.
    if own is None:
        return counts, list(span.continuation[max(0, end - counts.order + 1) : end]), None
    own.become(span.lane.prompt, span.continuation[:end])
    return counts, own.text, own


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
