"""What a classifier is asked, what comes back, and the way that every classifier can answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.memory import CacheLimit, Planned

BATCH_TOKENS = 8192

Text: TypeAlias = "tuple[int, ...]"
_Salted: TypeAlias = "tuple[Text, str | None]"  # a text, and the salt of those that share it


@dataclass(frozen=True, slots=True)
class Case:
    """Texts to classify, as tokens. The last one is the root: most others begin as it does.

    `lane` says whose texts these are, and stands in one case of a call only. Cases of the same
    `salt` may share what is read.
    """

    lane: Hashable
    texts: Sequence[Text]
    salt: str | None = None


@dataclass(frozen=True, slots=True)
class ClassLogits:
    """The head's logits of every label for every text of a case [texts, labels], and the passes.

    Logits in float32, of which `to_logprobs` makes log C.
    """

    logits: Tensor
    passes: frozenset[int]


class WholeTextRunner:
    """Classifies each text from its first token on, in padded batches. Keeps nothing."""

    def __init__(self, model: Any, padding: int) -> None:
        self.model = model
        self.passes = 0
        self.padding = padding

    @torch.inference_mode()
    def classify(self, cases: Sequence[Case]) -> list[ClassLogits]:
        """Every distinct text of a salt once, texts of about one length together."""
        logits_of: dict[_Salted, tuple[Tensor, int]] = {}
        for batch in _batches({(text, case.salt) for case in cases for text in case.texts}):
            logits = self._forward([text for text, _ in batch])
            logits_of.update(zip(batch, ((row, self.passes) for row in logits), strict=True))
        answers = []
        for case in cases:
            rows, passes = zip(*(logits_of[text, case.salt] for text in case.texts), strict=True)
            answers.append(ClassLogits(torch.stack(rows), frozenset(passes)))
        return answers

    def release(self, lane: Hashable) -> None:
        """Nothing is kept between questions."""

    def join(self, limit: CacheLimit) -> None:
        """Nothing is kept."""

    def memory(self, texts: Sequence[Planned]) -> int:
        """None."""
        return 0

    def _forward(self, rows: Sequence[Text]) -> Tensor:
        """Logits [rows, labels] in one pass; an empty text is not read: its classes are even."""
        width = max(1, max(map(len, rows)))
        ids = torch.full((len(rows), width), self.padding)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[i, : len(row)] = 1
        mask[:, 0] = 1
        device = self.model.device
        out = self.model(input_ids=ids.to(device), attention_mask=mask.to(device))
        logits: Tensor = out.logits.float()
        self.passes += 1
        if bool(logits.isnan().any()):
            raise ModelError("the classifier computed what is not a number (NaN)")
        empty = torch.tensor([not row for row in rows], device=device)
        return logits.masked_fill(empty[:, None], 0.0)


def to_logprobs(config: Any, logits: Tensor) -> Tensor:
    """Log C of every label [texts, labels] in float32: by softmax where labels exclude others."""
    multi = getattr(config, "problem_type", None) == "multi_label_classification"
    if multi or logits.shape[-1] == 1:
        return torch.nn.functional.logsigmoid(logits.float())
    return torch.log_softmax(logits.float(), dim=-1)


def _batches(texts: set[_Salted]) -> list[list[_Salted]]:
    """Texts of about one length together, so that little is padding."""
    batches: list[list[_Salted]] = [[]]
    for text, salt in sorted(texts, key=lambda item: (len(item[0]), item[0], item[1] or "")):
        if (len(batches[-1]) + 1) * max(1, len(text)) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append((text, salt))
    return [batch for batch in batches if batch]
