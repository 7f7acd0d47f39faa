"""Questions to classifiers, their answers, and the runner that works for every classifier."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.weights.kinds import why_nan

BATCH_TOKENS = 8192

Text: TypeAlias = "tuple[int, ...]"
_Salted: TypeAlias = "tuple[Text, Hashable]"  # a text and its salt


@dataclass(frozen=True, slots=True)
class Case:
    """Texts to classify, as tokens. The last text is the root: most other texts begin as it does.

    `lane` names the owner of the texts, and occurs in only one case of a call. Cases of the same
    `salt` may share what is read.
    """

    lane: Hashable
    texts: Sequence[Text]
    salt: Hashable = None


@dataclass(frozen=True, slots=True)
class ClassLogits:
    """The logits of every label for every text of a case, [texts, labels], and their passes.

    The logits are the output of the classifier's head, in float32. `to_logprobs` turns them into
    log C, the log-probability of each label.
    """

    logits: Tensor
    passes: frozenset[int]


class WholeTextRunner:
    """A runner that reads each text from its first token, in padded batches, and caches nothing."""

    def __init__(self, model: Any, padding: int) -> None:
        self.model = model
        self.passes = 0
        self.padding = padding

    @torch.inference_mode()
    def classify(self, cases: Sequence[Case]) -> list[ClassLogits]:
        """Classify each text, in batches of texts of about equal length.

        Equal texts of the same salt are classified once.
        """
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
        """Do nothing: nothing is cached."""

    def join(self, limit: CacheLimit) -> None:
        """Do nothing: nothing is cached."""

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return 0: nothing is cached."""
        return 0

    def _forward(self, rows: Sequence[Text]) -> Tensor:
        """Return logits [rows, labels] of one pass. An empty text has logits 0 for all labels."""
        width = max(1, max(map(len, rows)))
        ids = torch.full((len(rows), width), self.padding)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[i, : len(row)] = 1
        # Attention over no token would be NaN, so an empty text sees one token of padding.
        mask[:, 0] = 1
        device = self.model.device
        out = self.model(input_ids=ids.to(device), attention_mask=mask.to(device))
        logits: Tensor = out.logits.float()
        self.passes += 1
        if bool(logits.isnan().any()):
            raise ModelError(
                why_nan(self.model.name_or_path or type(self.model).__name__, self.model)
            )
        empty = torch.tensor([not row for row in rows], device=device)
        return logits.masked_fill(empty[:, None], 0.0)


def _batches(texts: set[_Salted]) -> list[list[_Salted]]:
    """Return batches of texts of about equal length, which need little padding."""
    batches: list[list[_Salted]] = [[]]
    # All parts of an item are compared, so that the order is the same in every process. The order
    # of a set is not.
    for text, salt in sorted(texts, key=lambda item: (len(item[0]), item[0], str(item[1] or ""))):
        if (len(batches[-1]) + 1) * max(1, len(text)) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append((text, salt))
    return [batch for batch in batches if batch]
