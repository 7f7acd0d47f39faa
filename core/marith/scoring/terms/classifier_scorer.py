"""The scorer of classifiers: how much likelier each candidate token makes a class."""

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
from marith.scoring.lane_text import LaneText
from marith.scoring.notices import note_neighbors, warn
from marith.scoring.passes.chunked_prefill import PrefillLimits
from marith.scoring.passes.questions import Answer, RequestLane, Span
from marith.scoring.prompting.templates import to_plain_text
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import WithoutContext, moved_to
from marith.scoring.terms.text_encoder import Encoder
from marith.scoring.terms.tree_runner import TreeRunner
from marith.scoring.terms.whole_texts import (
    Case,
    Text,
    WholeTextRunner,
)
from marith.scoring.weights.checkpoint import Checkpoint, threads_of
from marith.scoring.weights.kinds import raising_model_error
from marith.scoring.weights.shared_weights import nbytes, weights
from marith.tensor_rows import rows_of

Texts: TypeAlias = "tuple[str, ...]"


class ClassifierScorer(WithoutContext):
    """The scorer of the classifier terms of one checkpoint, over texts of the formula's vocabulary.

    A classifier adds log C(x₁..x_k) − log C(x₁..x_{k−1}) for each candidate and 0 for all other
    tokens (paper, section 3, after FUDGE: Yang and Klein, 2021), or the same difference on another
    scale. A judgement is log C(x₁..x_{k−1}) itself. The classifier reads text through its own
    tokenizer. If a text is longer than the classifier's context, only its last tokens are read, and
    the first such text gives a warning.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        vocabulary: Vocabulary,
        cache_bytes: int = CACHE_BYTES,
        answers: torch.device | None = None,
        max_batched_tokens: int | None = None,
    ) -> None:
        # This is None if answers stay on the device that computes them.
        self._answers = answers
        # The loader keeps a checkpoint while it is referenced.
        self.checkpoint = checkpoint
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
            # A model that cannot classify fails here, and not in the middle of a request.
            with raising_model_error(f"the classifier {self.name!r} cannot classify a text"):
                self._whole.classify([Case(None, self._tokens(("a",)))])
            self._whole.passes = 0
            accelerated = checkpoint.device.type != "cpu"
            limits = PrefillLimits.of_device(accelerated, self.nbytes, max_batched_tokens)
            self.runner = _start_runner(
                self._whole, self.name, self._context_length, cache_bytes, limits.alone
            )
        # A pass judges the candidates of several texts, padded to the longest.
        note_neighbors(f"the classifier {self.name!r}")

    @property
    def passes(self) -> int:
        """The number of forward passes so far."""
        return self.runner.passes

    def read(self, term: Classifier | Judgement, prompt: Prompt) -> str:
        """Return the text before the continuation: the conversation, if the term reads the prompt.

        Raises RequestError if the classifier does not have the term's label.
        """
        self._column(term)
        return to_plain_text(prompt.messages) if term.read_prompt else ""

    def lane_text(self, lane: RequestLane, more: int) -> LaneText:
        """Return the text of a lane with `more` tokens after the prompt, as `memory` counts it.

        The classifier's own tokens are not known yet. Their upper bound for the prompt is one token
        for each byte. The estimate for the continuation is twice `more`.
        """
        assert isinstance(lane.reading, str)
        read = len(lane.reading.encode("utf-8", "replace"))
        return LaneText.of(lane.key, (), min(self._context_length, read + 2 * more))

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys and values of all these texts."""
        return self.runner.memory(texts)

    def score(self, spans: Sequence[Span]) -> list[Answer | None]:
        """Return log-ratios [count, vocab] of each span, and 0 for tokens that are not candidates.

        For a judgement, return log-probabilities [count, 1]. Spans of one salt that ask about the
        same texts, such as two labels of one classifier, share a lane.
        """
        texts = [self._texts(span) for span in spans]
        lanes: dict[tuple[Texts, Hashable], RequestLane] = {}
        for span, asked in zip(spans, texts, strict=True):
            lanes.setdefault((asked, span.lane.key), span.lane)
        cases = [
            Case(lane, self._tokens(asked, salt), salt) for (asked, salt), lane in lanes.items()
        ]
        logits = dict(zip(lanes, self.runner.classify(cases), strict=True))
        scored: list[Answer | None] = []
        for span, asked in zip(spans, texts, strict=True):
            answer = logits[asked, span.lane.key]
            if answer is None:
                scored.append(None)
                continue
            column = self._scaled(span.term, answer.logits)
            if isinstance(span.term, Judgement):
                scored.append(Answer(rows_of(column[:, None]), answer.passes))
                continue
            ratios = self._ratios(span, column)
            judged = len(asked) - span.count
            scored.append(Answer(rows_of(ratios), answer.passes, judged=judged))
        return scored if self._answers is None else moved_to(scored, self._answers)

    def release(self, lane: RequestLane) -> None:
        """Release a lane. Its tokens stay cached until another lane needs the room."""
        self.runner.release(lane)

    def probabilities(self, term: Classifier, texts: Sequence[str]) -> list[float]:
        """Return the probability of the term's label for each whole text, in [0, 1]."""
        self._column(term)
        if not texts:
            return []
        with threads_of(self.model):
            [answer] = self._whole.classify([Case(None, self._tokens(tuple(texts)))])
        return self._scaled(replace(term, scale="log"), answer.logits).exp().tolist()

    def _scaled(self, term: Term, logits: Tensor) -> Tensor:
        """Return the class's logit, probability or log-probability of each text, [texts]."""
        assert isinstance(term, (Classifier, Judgement))
        column = self._column(term)
        if isinstance(term, Classifier) and term.scale == "logit":
            return logits[:, column]
        logprobs = to_logprobs(self.model.config, logits)[:, column]
        probable = isinstance(term, Classifier) and term.scale == "probability"
        return logprobs.exp() if probable else logprobs

    def _texts(self, span: Span) -> Texts:
        """Return each position's text with each candidate, then each position's text so far.

        The last text is the longest text so far. The tree runner takes it as the root.
        """
        # A judgement has no candidates.
        each = span.candidates or [()] * span.count
        ends = [len(span.continuation) - span.count + 1 + i for i in range(span.count)]
        so_far = [list(span.continuation[:end]) for end in ends]
        tokens = [
            [*before, token]
            for before, candidates in zip(so_far, each, strict=True)
            for token in candidates
        ]
        return tuple(f"{span.lane.reading}{self.vocabulary.decode(t)}" for t in [*tokens, *so_far])

    def _ratios(self, span: Span, column: Tensor) -> Tensor:
        """Return how much each candidate raises `column` at its position, [count, vocab]."""
        assert span.candidates is not None
        before = column[len(column) - span.count :]
        rows = [i for i, candidates in enumerate(span.candidates) for _ in candidates]
        tokens = [token for candidates in span.candidates for token in candidates]
        ratios = torch.zeros(span.count, self.vocabulary.size, device=column.device)
        ratios[rows, tokens] = column[: len(tokens)] - before[rows]
        return ratios

    def _tokens(self, texts: Texts, salt: Hashable = None) -> list[Text]:
        """Return the tokens of each text as the classifier reads it, truncated to its context."""
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
            # The marks before the text stay: half of all marks, rounded up.
            marks = self._own.encode("", start=True)
            head = marks[: len(marks) // 2 + len(marks) % 2]
            tokens = head + tokens[len(tokens) - self._context_length + len(head) :]
        return tuple(tokens)

    def _column(self, term: Classifier | Judgement) -> int:
        """Return the index of the class that a label names. A label may also be an index.

        Raises RequestError, which lists all labels, if there is no such class.
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


def to_logprobs(config: Any, logits: Tensor) -> Tensor:
    """Return log C of every label, [texts, labels] in float32.

    If labels exclude each other, C is a softmax over the labels. If they do not, or if there is
    only one label, C is a sigmoid for each label.
    """
    multi = getattr(config, "problem_type", None) == "multi_label_classification"
    if multi or logits.shape[-1] == 1:
        return torch.nn.functional.logsigmoid(logits.float())
    return torch.log_softmax(logits.float(), dim=-1)


def _labels(config: Any) -> dict[int, str]:
    named = getattr(config, "id2label", None) or {}
    return {i: str(named.get(i, i)) for i in range(config.num_labels)}


def _pad_with(config: Any, vocabulary: Vocabulary) -> int:
    """Set and return the padding token, with which causal classifiers find the end of a text."""
    candidates = [config.pad_token_id, vocabulary.tokenizer.pad_token_id, vocabulary.start_id, 0]
    padding = next(int(token) for token in candidates if token is not None)
    config.pad_token_id = padding
    return padding


def _usable_context(checkpoint: Checkpoint) -> int:
    """Return the number of tokens that both the model and the tokenizer support."""
    limit = getattr(checkpoint.vocabulary.tokenizer, "model_max_length", None) or 1 << 30
    return int(min(limit, checkpoint.context_length))


def _start_runner(
    whole: WholeTextRunner, name: str, context_length: int, cache_bytes: int, at_once: int
) -> TreeRunner | WholeTextRunner:
    """Return the runner of prefix trees if the model reads from left to right.

    Otherwise return the runner of whole texts, which is slower and works for all models.
    """
    if not isinstance(getattr(whole.model, "score", None), nn.Linear):
        return whole
    try:
        return TreeRunner(whole.model, whole.padding, context_length, cache_bytes, at_once=at_once)
    except ModelError as error:
        warn(f"the classifier {name!r} runs without a cache, which is slower: {error}")
        return whole
