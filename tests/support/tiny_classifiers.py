"""Tiny classifiers of two kinds, spans to ask them, and the expected judgements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import torch
from support.runner_questions import LaneByName
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from marith.formula.tree.terms import Classifier
from marith.scoring.passes.questions import Span
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.scoring.weights.checkpoint import Checkpoint
from marith.testing import LETTERS, tiny_classifier, tiny_tokenizer

term = Classifier("some model", label="yes")


def spaced_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer of the formula, which decodes letters with spaces between them."""
    raw = Tokenizer.from_str(tiny_tokenizer().backend_tokenizer.to_str())
    raw.decoder = None  # joined by spaces
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<start>", eos_token="<end>")


def scorer_of(
    model: Any, tokenizer: Any, context: int = 128, max_batched_tokens: int | None = None
) -> ClassifierScorer:
    checkpoint = Checkpoint("judge", model, Vocabulary(tokenizer, 64), context)
    return ClassifierScorer(
        checkpoint, Vocabulary(spaced_tokenizer(), 28), max_batched_tokens=max_batched_tokens
    )


@cache
def llama_scorer() -> ClassifierScorer:
    return scorer_of(tiny_classifier(), tiny_tokenizer())


def bert_tokenizer() -> PreTrainedTokenizerFast:
    words = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *LETTERS)
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        unk_token="[UNK]",
    )  # fmt: skip


def pairing_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer in which `a b` is one token: a letter can change the token before it.

    A text begins with a special token, and `a b c` has fewer tokens than letters.
    """
    letters = {letter: i + 3 for i, letter in enumerate(LETTERS)}
    pairs = {f"{a} {b}": 30 + i for i, (a, b) in enumerate(zip(LETTERS, LETTERS[1:], strict=False))}
    vocabulary = {"<pad>": 0, "<s>": 1, " ": 2, **letters, **pairs}
    spaced = {f"{a} ": 60 + i for i, a in enumerate(LETTERS)}
    merges = [(a, " ") for a in LETTERS]
    merges += [(f"{a} ", b) for a, b in zip(LETTERS, LETTERS[1:], strict=False)]
    raw = Tokenizer(models.BPE({**vocabulary, **spaced}, merges))
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>")


@cache
def pairing_scorer() -> ClassifierScorer:
    tokenizer = pairing_tokenizer()
    checkpoint = Checkpoint("judge", tiny_classifier(90), Vocabulary(tokenizer, 90), 128)
    return ClassifierScorer(checkpoint, Vocabulary(spaced_tokenizer(), 28))


def tiny_bert(labels: int = 3, **more: Any) -> Any:
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=30, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=40, num_labels=labels,
        initializer_range=0.5, **more,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


@cache
def bert_scorer() -> ClassifierScorer:
    return scorer_of(tiny_bert().double(), bert_tokenizer(), 40)  # batches round alike


def alone(scorer: ClassifierScorer, text: str, limit: int = 10**6) -> Tensor:
    """Return the log-probability of every label for one text, by the model, without padding."""
    ids = scorer.checkpoint.vocabulary.encode(text, start=True)[:limit]
    with torch.inference_mode():
        logits = scorer.model(input_ids=torch.tensor([ids])).logits[0]
    if len(logits) == 1 or scorer.model.config.problem_type == "multi_label_classification":
        return torch.nn.functional.logsigmoid(logits)
    return torch.log_softmax(logits, dim=-1)


def text_of(tokens: Sequence[int]) -> str:
    return " ".join(LETTERS[token - 2] for token in tokens)


def span(
    continuation: Sequence[int], candidates: list[list[int]], reading: str = "",
    asked: Classifier = term, lane: Hashable = "lane",
) -> Span:  # fmt: skip
    return Span(asked, LaneByName(lane, reading), continuation, len(candidates), candidates)
