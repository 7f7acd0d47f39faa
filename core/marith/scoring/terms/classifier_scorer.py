"""Classifiers that guide: how much likelier does a token make the class?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from marith.errors import ModelError, RequestError
from marith.formula.tree.terms import Classifier, Judgement, Term
from marith.request.limits import CACHE_BYTES
from marith.request.prompt import Prompt
from marith.scoring.memory import Planned
from marith.scoring.notices import warn
from marith.scoring.prompting.templates import to_plain_text
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Demand, Scored, Span, WithoutContext, moved_to
from marith.scoring.terms.prefix_tree import Encoder, TreeRunner
from marith.scoring.terms.whole_texts import (
    Case,
    Text,
    WholeTextRunner,
    to_logprobs,
)
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.cpu_threads import threads_of
from marith.scoring.weights.kinds import raising_model_error
from marith.scoring.weights.shared_weights import nbytes, weights

Texts: TypeAlias = "tuple[str, ...]"


class ClassifierScorer(WithoutContext):
    """Every classifier term of one checkpoint, judging texts of the formula's vocabulary.

    log C(x₁..x_k) − log C(x₁..x_{k−1}) for the candidates and 0 for all other tokens (paper,
    section 3, after FUDGE: Yang and Klein, 2021), or the same difference on another scale; for a
    judgement log C(x₁..x_{k−1}) itself. The classifier reads text through its own
    tokenizer; where a text is longer than its context, the oldest part is cut, with one warning.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        vocabulary: Vocabulary,
        cache_bytes: int = CACHE_BYTES,
        answers: torch.device | None = None,
    ) -> None:
        self._answers = answers  # where log-probabilities go, if not where they are computed
        self.checkpoint = checkpoint  # the loader keeps it for as long as this does
        self.model = checkpoint.model.eval()
        self.name = checkpoint.name
        self.vocabulary = vocabulary
        self._own = checkpoint.vocabulary
        self._encode = Encoder(checkpoint.vocabulary)
        self._context_length = _usable_context(checkpoint)
        self._labels = _labels(self.model.config)
        padding = _pad_with(self.model.config, self._own)
        self._whole = WholeTextRunner(self.model, padding)
        self._warned_of_cut = False
        self.nbytes = nbytes(weights(self.model))
        with threads_of(self.model):
            with raising_model_error(f"the classifier {self.name!r} cannot classify a text"):
                self._whole.classify([Case(None, self._tokens(("a",)))])
            self._whole.passes = 0
            self.runner = _start_runner(self._whole, self.name, self._context_length, cache_bytes)

    @property
    def passes(self) -> int:
        """How many forward passes there have been."""
        return self.runner.passes

    def read(self, term: Classifier | Judgement, prompt: Prompt) -> str:
        """The text before the continuation: the conversation if the term asks for it."""
        self._column(term)
        return to_plain_text(prompt.messages) if term.read_prompt else ""

    def planned(self, demand: Demand) -> Planned:
        """The text of a lane, as `memory` counts it: its tokens are not known yet.

        A letter is at most as many tokens as it has bytes; a token of the formula's is two at most.
        """
        assert isinstance(demand.reading, str)
        read = len(demand.reading.encode("utf-8", "replace"))
        return Planned(demand.salt, (), min(self._context_length, read + 2 * demand.more))

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes of keys and values these texts take together at most."""
        return self.runner.memory(texts)

    def score(self, spans: Sequence[Span]) -> list[Scored | None]:
        """Log-ratios [count, vocab], zero outside the candidates of each position of each span.

        Spans of a salt that ask about the same texts, such as two labels of one classifier,
        share a lane.
        """
        texts = [self._texts(span) for span in spans]
        lanes: dict[tuple[Texts, str | None], Hashable] = {}
        for span, asked in zip(spans, texts, strict=True):
            lanes.setdefault((asked, span.salt), span.lane)
        cases = [
            Case(lane, self._tokens(asked, salt), salt) for (asked, salt), lane in lanes.items()
        ]
        logits = dict(zip(lanes, self.runner.classify(cases), strict=True))
        scored: list[Scored | None] = []
        for span, asked in zip(spans, texts, strict=True):
            answer = logits[asked, span.salt]
            if answer is None:
                scored.append(None)
                continue
            column = self._scaled(span.term, answer.logits)
            if isinstance(span.term, Judgement):
                scored.append(Scored.of(column[:, None], answer.passes))
                continue
            ratios = self._ratios(span, column)
            scored.append(Scored.of(ratios, answer.passes, judged=len(asked) - span.count))
        return scored if self._answers is None else moved_to(scored, self._answers)

    def release(self, lane: Hashable) -> None:
        """What the lane has read stays until another needs the room."""
        self.runner.release(lane)

    def probabilities(self, term: Classifier, texts: Sequence[str]) -> list[float]:
        """The probability of the term's label for whole texts, one number in [0, 1] each."""
        self._column(term)
        if not texts:
            return []
        with threads_of(self.model):
            [answer] = self._whole.classify([Case(None, self._tokens(tuple(texts)))])
        return self._scaled(replace(term, scale="log"), answer.logits).exp().tolist()

    def _scaled(self, term: Term, logits: Tensor) -> Tensor:
        """What a term compares of each text, [texts]."""
        assert isinstance(term, (Classifier, Judgement))
        column = self._column(term)
        if isinstance(term, Classifier) and term.scale == "logit":
            return logits[:, column]
        logprobs = to_logprobs(self.model.config, logits)[:, column]
        probable = isinstance(term, Classifier) and term.scale == "probability"
        return logprobs.exp() if probable else logprobs

    def _texts(self, span: Span) -> Texts:
        """For each position the text with each candidate; then for each position the text so far.

        The last of them is the text that all go on from.
        """
        each = span.candidates or [()] * span.count  # a judgement has none
        ends = [len(span.continuation) - span.count + 1 + i for i in range(span.count)]
        so_far = [list(span.continuation[:end]) for end in ends]
        tokens = [
            [*before, token]
            for before, candidates in zip(so_far, each, strict=True)
            for token in candidates
        ]
        return tuple(f"{span.reading}{self.vocabulary.decode(t)}" for t in [*tokens, *so_far])

    def _ratios(self, span: Span, column: Tensor) -> Tensor:
        """What each candidate adds to the judgement of its position, [count, vocab]."""
        assert span.candidates is not None
        before = column[len(column) - span.count :]
        rows = [i for i, candidates in enumerate(span.candidates) for _ in candidates]
        tokens = [token for candidates in span.candidates for token in candidates]
        ratios = torch.zeros(span.count, self.vocabulary.size, device=column.device)
        ratios[rows, tokens] = column[: len(tokens)] - before[rows]
        return ratios

    def _tokens(self, texts: Texts, salt: str | None = None) -> list[Text]:
        """Each text as the classifier reads it, cut to its context."""
        encoded = {text: self._cut(self._encode(text, salt)) for text in dict.fromkeys(texts)}
        return [encoded[text] for text in texts]

    def _cut(self, tokens: list[int]) -> Text:
        if len(tokens) > self._context_length:
            if not self._warned_of_cut:
                warn(
                    f"the classifier {self.name!r} reads the last {self._context_length} tokens "
                    f"of a text of {len(tokens)}"
                )
                self._warned_of_cut = True
            marks = self._own.encode("", start=True)
            head = marks[: len(marks) // 2 + len(marks) % 2]
            tokens = head + tokens[len(tokens) - self._context_length + len(head) :]
        return tuple(tokens)

    def _column(self, term: Classifier | Judgement) -> int:
        """The class that a label names, else the one of that index.

        Raises RequestError with the classes there are.
        """
        names = list(self._labels.values())
        if isinstance(term.label, str):
            for index, name in self._labels.items():
                if name.lower() == term.label.lower():
                    return index
            if term.label.isdecimal() and int(term.label) in self._labels:
                return int(term.label)
        elif term.label in self._labels:
            return term.label
        raise RequestError(f"{self.name!r} has no label {term.label!r}; it has {', '.join(names)}")


def _labels(config: Any) -> dict[int, str]:
    named = getattr(config, "id2label", None) or {}
    return {i: str(named.get(i, i)) for i in range(config.num_labels)}


def _pad_with(config: Any, vocabulary: Vocabulary) -> int:
    """The padding token, which causal classifiers need to know to find a text's end."""
    candidates = [config.pad_token_id, vocabulary.tokenizer.pad_token_id, vocabulary.start_id, 0]
    padding = next(int(token) for token in candidates if token is not None)
    config.pad_token_id = padding
    return padding


def _usable_context(checkpoint: Checkpoint) -> int:
    """The tokens that both model and tokenizer say they can read."""
    limit = getattr(checkpoint.vocabulary.tokenizer, "model_max_length", None) or 1 << 30
    return int(min(limit, checkpoint.context_length))


def _start_runner(
    whole: WholeTextRunner, name: str, context_length: int, cache_bytes: int
) -> TreeRunner | WholeTextRunner:
    """The faster way where the model reads from left to right, else the way of all models."""
    if not isinstance(getattr(whole.model, "score", None), nn.Linear):
        return whole
    try:
        return TreeRunner(whole.model, whole.padding, context_length, cache_bytes)
    except ModelError as error:
        warn(f"the classifier {name!r} runs without a cache, and so slower: {error}")
        return whole
