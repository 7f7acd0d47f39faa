"""Classifiers that guide: how much likelier does a token make the class?"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from marith.errors import RequestError
from marith.formula.terms import Classifier
from marith.scoring.scorer import Message, Scored, Span
from marith.scoring.shelf import Checkpoint
from marith.scoring.templates import to_plain_text
from marith.scoring.vocabulary import Vocabulary

BATCH_TOKENS = 8192


class ClassifierScorer:
    """Every classifier term of one checkpoint, judging texts of the formula's vocabulary.

    log C(x₁..x_k) − log C(x₁..x_{k−1}) for the candidates and 0 for all other tokens (paper,
    section 4, after FUDGE: Yang and Klein, 2021). The classifier reads text through its own
    tokenizer; where a text is longer than its context, the oldest part is cut, which is said once.
    """

    def __init__(self, checkpoint: Checkpoint, vocabulary: Vocabulary) -> None:
        self.checkpoint = checkpoint  # the shelf keeps it for as long as this does
        self.model = checkpoint.model.eval()
        self.name = checkpoint.name
        self.vocabulary = vocabulary
        self.passes = 0
        self._own = checkpoint.vocabulary
        self._context_length = _usable_context(checkpoint)
        self._labels = _labels(checkpoint.model.config)
        self._padding = self._pad_with(checkpoint.model.config)
        self._said_cut = False

    def read(self, term: Classifier, messages: Sequence[Message]) -> str:
        """The text before the continuation: the conversation if the term asks for it."""
        self._column(term)
        return to_plain_text(messages) if term.read_prompt else ""

    @torch.inference_mode()
    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """Log-ratios [count, vocab], zero outside the candidates [count, k] of each span."""
        texts: list[str] = []
        for span in spans:
            texts.extend(self._texts(span))
        before = self.passes
        judged = self._judge(texts)
        passes = frozenset(range(before + 1, self.passes + 1))
        scored = []
        for span in spans:
            assert span.candidates is not None
            assert isinstance(span.term, Classifier)
            count, k = span.candidates.shape
            own, judged = judged[: count * (k + 1)], judged[count * (k + 1) :]
            own = own[:, self._column(span.term)].view(count, k + 1)
            ratios = torch.zeros(count, self.vocabulary.size)
            ratios.scatter_(1, span.candidates.cpu(), own[:, 1:] - own[:, :1])
            scored.append(Scored(ratios.to(span.candidates.device), passes))
        return scored

    def release(self, lane: Hashable) -> None:
        """Nothing is kept between questions."""

    @torch.inference_mode()
    def probabilities(self, term: Classifier, texts: Sequence[str]) -> list[float]:
        """The probability of the term's label for whole texts, one number in [0, 1] each."""
        column = self._column(term)
        return self._judge(list(texts))[:, column].exp().tolist() if texts else []

    def _texts(self, span: Span) -> list[str]:
        """For each position the text so far, then the text with each candidate."""
        assert span.candidates is not None
        texts = []
        for i, candidates in enumerate(span.candidates.tolist()):
            end = len(span.continuation) - (span.count - 1) + i
            so_far = list(span.continuation[:end])
            texts.append(self.vocabulary.decode(so_far))
            texts += [self.vocabulary.decode([*so_far, token]) for token in candidates]
        return [f"{span.reading}{text}" for text in texts]

    def _judge(self, texts: list[str]) -> Tensor:
        """Log C of every label for every text, [texts, labels] in float32."""
        distinct = list(dict.fromkeys(texts))
        tokens = {text: self._tokens(text) for text in distinct}
        judged: dict[str, Tensor] = {}
        for batch in _batches(sorted(distinct, key=lambda text: len(tokens[text])), tokens):
            logprobs = self._forward([tokens[text] for text in batch])
            judged.update(zip(batch, logprobs, strict=True))
        return torch.stack([judged[text] for text in texts])

    def _tokens(self, text: str) -> list[int]:
        tokens = self._own.encode(text, start=True)
        if len(tokens) > self._context_length:
            if not self._said_cut:
                warnings.warn(
                    f"the classifier {self.name!r} reads the last {self._context_length} tokens "
                    f"of a text of {len(tokens)}",
                    stacklevel=2,
                )
                self._said_cut = True
            extra = len(self._own.encode("", start=True))
            head = self._own.encode("", start=True)[: extra // 2 + extra % 2]
            tokens = head + tokens[len(tokens) - self._context_length + len(head) :]
        return tokens

    def _forward(self, rows: list[list[int]]) -> Tensor:
        """One padded pass; an empty text is judged by nobody and has equal classes."""
        width = max(1, max(map(len, rows)))
        ids = torch.full((len(rows), width), self._padding)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        mask[:, 0] = 1
        device = self.model.device
        logits = self.model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
        self.passes += 1
        logprobs = self._to_logprobs(logits.float())
        empty = torch.tensor([not row for row in rows], device=device)
        even = self._to_logprobs(torch.zeros_like(logprobs))
        return torch.where(empty[:, None], even, logprobs).cpu()

    def _to_logprobs(self, logits: Tensor) -> Tensor:
        multi = getattr(self.model.config, "problem_type", None) == "multi_label_classification"
        if multi or logits.shape[-1] == 1:
            return torch.nn.functional.logsigmoid(logits)
        return torch.log_softmax(logits, dim=-1)

    def _pad_with(self, config: Any) -> int:
        """The padding token, which causal classifiers need to know to find a text's end."""
        known = [config.pad_token_id, self._own.tokenizer.pad_token_id, self._own.start_id, 0]
        padding = next(int(token) for token in known if token is not None)
        config.pad_token_id = padding
        return padding

    def _column(self, term: Classifier) -> int:
        """The class that a label names. Raises RequestError with the classes there are."""
        names = list(self._labels.values())
        if isinstance(term.label, str):
            for index, name in self._labels.items():
                if name.lower() == term.label.lower():
                    return index
        elif term.label in self._labels:
            return term.label
        raise RequestError(f"{self.name!r} has no label {term.label!r}; it has {', '.join(names)}")


def _labels(config: Any) -> dict[int, str]:
    named = getattr(config, "id2label", None) or {}
    return {i: str(named.get(i, i)) for i in range(config.num_labels)}


def _usable_context(checkpoint: Checkpoint) -> int:
    """RoBERTa counts two of its positions for padding; its tokenizer knows the usable length."""
    own = getattr(checkpoint.vocabulary.tokenizer, "model_max_length", None) or 1 << 30
    return int(min(own, checkpoint.context_length))


def _batches(texts: list[str], tokens: dict[str, list[int]]) -> list[list[str]]:
    """Texts of about one length together, so that little is padding."""
    batches: list[list[str]] = [[]]
    for text in texts:  # in order of length: the newest is the longest of its batch
        if (len(batches[-1]) + 1) * max(1, len(tokens[text])) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(text)
    return [batch for batch in batches if batch]
