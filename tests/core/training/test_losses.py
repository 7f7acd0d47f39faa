"""Losses: all prefixes at once give the loss of each of them alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

from marith.testing import tiny_classifier
from marith.training.optimisation import judges_every_prefix, loss_of_each, loss_of_every_prefix
from marith.training.prefixes import Batch, SpecialTokens

ROWS = [[5, 6, 7, 9], [8, 0, 4], [3, 11, 12, 13, 14, 15]]
CLASSES = [1, 0, 1]
PADDING = 0


def causal(family: str, gpt2: str) -> Any:
    if family == "llama":
        model = tiny_classifier(seed=3)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(gpt2, num_labels=2)
        torch.nn.init.normal_(model.score.weight, std=0.5)
    model.config.pad_token_id = PADDING
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize(
    "special_tokens", [SpecialTokens(), SpecialTokens((2,)), SpecialTokens((2, 1))]
)
def test_the_loss_of_all_prefixes_at_once_equals_the_loss_of_each_alone(
    family: str, special_tokens: SpecialTokens, gpt2: str
) -> None:
    model = causal(family, gpt2)
    assert judges_every_prefix(model, special_tokens, ROWS[2])
    expected = []
    for row, told in zip(ROWS, CLASSES, strict=True):
        read = special_tokens.around(row)
        ends = range(max(1, len(special_tokens.head)), len(read) + 1)
        # Padding inside a text is judged by none: the classifier would look before it.
        alone = [read[:end] for end in ends if read[end - 1] != PADDING]
        logits = torch.cat([model(input_ids=torch.tensor([prefix])).logits for prefix in alone])
        expected.append(functional.cross_entropy(logits, torch.tensor([told] * len(alone))))
    batch = Batch.of([special_tokens.around(row) for row in ROWS], CLASSES, PADDING)
    found = loss_of_every_prefix(model, batch, special_tokens, PADDING)
    assert float(found) == pytest.approx(float(sum(expected)) / len(ROWS), rel=1e-5)


@torch.no_grad()
def test_the_loss_of_a_batch_equals_the_loss_of_its_rows_alone(roberta: str) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(roberta, num_labels=2).eval()
    batch = Batch.of(ROWS, CLASSES, padding=1)
    alone = torch.cat([model(input_ids=torch.tensor([row])).logits for row in ROWS])
    expected = functional.cross_entropy(alone, torch.tensor(CLASSES))
    assert float(loss_of_each(model, batch)) == pytest.approx(float(expected), rel=1e-5)


class LooksAhead(torch.nn.Module):
    """A linear head on means over the whole text: no prefix of it is judged by the way."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.score = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 2)
        self.device = torch.device("cpu")

    def base_model(self, input_ids: torch.Tensor, **_: Any) -> Any:
        mean = self.words(input_ids).mean(dim=1, keepdim=True)
        return type("Output", (), {"last_hidden_state": mean.expand(-1, input_ids.shape[1], -1)})

    def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
        hidden = self.base_model(input_ids).last_hidden_state
        return type("Output", (), {"logits": self.score(hidden[:, -1])})


def test_bidirectional_models_and_end_markers_need_a_pass_for_each_prefix(
    roberta: str, gpt2: str
) -> None:
    encoder = AutoModelForSequenceClassification.from_pretrained(roberta, num_labels=2)
    assert not judges_every_prefix(encoder, SpecialTokens(), ROWS[2])
    assert not judges_every_prefix(LooksAhead(), SpecialTokens(), ROWS[2])
    assert not judges_every_prefix(causal("gpt2", gpt2), SpecialTokens((), (2,)), ROWS[2])
