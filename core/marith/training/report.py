"""Report a training: measure how well prefixes of held-out texts are classified."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from marith.console import print_table, say, terminal
from marith.scoring.terms.classifier_scorer import to_logprobs
from marith.scoring.terms.whole_texts import Case, WholeTextRunner
from marith.training.base import Base
from marith.training.encoded_texts import LabelledTokens
from marith.training.prefixes import SpecialTokens
from marith.training.settings import Settings

# The number of texts that are classified at a time.
_AT_ONCE = 256
REPORT = "report.json"
COLUMNS = ("tokens", "accuracy", "AUC-ROC", "log loss", "longer texts")


def lengths(texts: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the lengths 1, 2, 4, 8 … below the longest text's, then None for whole texts."""
    longest, result, length = max(map(len, texts)), list[int | None](), 1
    while length < longest:
        result.append(length)
        length *= 2
    return [*result, None]


def by_length(
    base: Base, special_tokens: SpecialTokens, held_out: LabelledTokens, balance: bool
) -> tuple[Line, ...]:
    """Classify the held-out texts by their first tokens. Return a line for each length."""
    runner = WholeTextRunner(base.model.eval(), base.padding)
    right = torch.tensor(held_out.classes)
    lines = []
    for length in lengths(held_out.texts):
        rows = [special_tokens.around(text[:length]) for text in held_out.texts]
        batches = []
        for start in range(0, len(rows), _AT_ONCE):
            [result] = runner.classify([Case(None, rows[start : start + _AT_ONCE])])
            batches.append(to_logprobs(base.model.config, result.logits).cpu())
        longer = 0 if length is None else sum(len(text) > length for text in held_out.texts)
        lines.append(figures(torch.cat(batches), right, balance, length, longer))
    return tuple(lines)


def figures(
    logprobs: Tensor, right: Tensor, balance: bool, length: int | None, longer: int
) -> Line:
    """Return the figures of log-probabilities [texts, classes] with the true classes [texts]."""
    ones = torch.ones(len(right), dtype=torch.double)
    weights = shares(right, logprobs.shape[1]) if balance else ones / len(right)
    hit = logprobs.argmax(dim=1) == right
    losses = -logprobs.double().gather(1, right[:, None])[:, 0]
    ranked = [auc(logprobs[:, i], right == i) for i in range(logprobs.shape[1])]
    return Line(
        length,
        float((hit * weights).sum()),
        sum(ranked) / len(ranked),
        float((losses * weights).sum()),
        longer,
    )


def shares(classes: Tensor, count: int) -> Tensor:
    """Return weights [texts] that have the same total in every class. They add up to 1."""
    return 1 / (count * torch.bincount(classes, minlength=count).double()[classes])


def auc(scores: Tensor, positive: Tensor) -> float:
    """Return the share of pairs in which a text of the class scores above a text of another class.

    Ties count half.
    """
    _, groups, counts = scores.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    # Equal scores share their mean rank, so that ties count half.
    ranks = (last - (counts - 1) / 2)[groups]
    positives = int(positive.sum())
    negatives = len(scores) - positives
    above = float(ranks[positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


@dataclass(frozen=True, slots=True)
class Line:
    """Figures for the first `tokens` tokens of each text; for whole texts if `tokens` is None.

    `longer` is the number of texts that have more tokens. Texts with at most `tokens` tokens are
    read whole. In `accuracy` and `log_loss` (in nats) all classes have the same weight if the
    training was balanced; otherwise all texts have the same weight. `auc` is the area under the ROC
    curve of a class against all others, as the mean over the classes.
    """

    tokens: int | None
    accuracy: float
    auc: float
    log_loss: float
    longer: int


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a finished training.

    `learned` and `held_out` are the numbers of texts by class, in the order of the logits.
    `epoch_size` is the number of texts in an epoch. `cut` is the number of texts that were
    truncated, because they have more than `limit` tokens, special tokens included. `loss` is the
    final moving mean of the losses, and `seconds` is the time of all steps.
    """

    settings: Settings
    learned: Mapping[str, int]
    held_out: Mapping[str, int]
    epoch_size: int
    limit: int
    cut: int
    every_prefix: bool
    steps: int
    loss: float
    seconds: float
    notices: tuple[str, ...]
    lines: tuple[Line, ...]

    def to_json(self) -> str:
        """Return the whole report as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, default=str)

    def show(self, out: Path) -> None:
        """Print the data, the table, and how a formula names the classifier."""
        console = terminal()
        way = "every prefix" if self.every_prefix else "a random prefix of each"
        say(
            console,
            [
                f"{self.settings.base}: learned {way} of {_counted(self.learned)}; held out "
                f"{_counted(self.held_out)}",
                f"{self.epoch_size} texts an epoch, {self.steps} steps in {self.seconds:.1f} s, "
                f"loss {self.loss:.4f}",
                *self.notices,
                "held out, by tokens read",
            ],
        )
        print_table(console, COLUMNS, [cells(line) for line in self.lines], left=())
        say(console, [f'in a formula: classifier("{out}", label="{[*self.learned][-1]}")'])


def cells(line: Line) -> tuple[str, ...]:
    """Return a line as texts for a table."""
    length = "whole" if line.tokens is None else str(line.tokens)
    figures = (f"{figure:.3f}" for figure in (line.accuracy, line.auc, line.log_loss))
    return (length, *figures, str(line.longer))


def _counted(counts: Mapping[str, int]) -> str:
    """Return counts as a text: `60 texts (negative: 17, positive: 43)`."""
    by_class = ", ".join(f"{name}: {count}" for name, count in counts.items())
    return f"{sum(counts.values())} texts ({by_class})"
