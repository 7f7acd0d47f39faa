"""Small bases of each kind, each with a tokenizer that was trained here, and data to learn from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SUBJECTS = ("the soup", "our waiter", "this old inn", "her garden", "the long road", "a letter")
WARM = ("is lovely", "was a delight", "shines", "made us glad")
COLD = ("is awful", "was a bore", "fails", "made us sad")
ENDS = ("today", "in the end", "once more", "as they say", "for everyone here")


def _sentences(seed: int, count: int) -> list[dict[str, str]]:
    """Rows in which the verb alone shows the class."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        verb = draw.choice((COLD, WARM)[i % 2])
        text = f"{draw.choice(SUBJECTS)} {verb} {draw.choice(ENDS)} {draw.choice(ENDS)}"
        rows.append({"text": text, "label": ("cold", "warm")[i % 2]})
    return rows


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _train_tokenizer(marks: bool) -> PreTrainedTokenizerFast:
    """Byte pairs of the sentences; with `marks` it puts `<s>` and `</s>` around a text."""
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator([row["text"] for row in _sentences(9, 60)], trainer)
    if marks:
        raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        **({"pad_token": "<pad>"} if marks else {}),
    )  # fmt: skip


def _save(folder: Path, model: Any, tokenizer: PreTrainedTokenizerFast) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def marked() -> PreTrainedTokenizerFast:
    """A tokenizer that puts `<s>` and `</s>` around a text."""
    return _train_tokenizer(marks=True)


@pytest.fixture(scope="session")
def bare() -> PreTrainedTokenizerFast:
    """A tokenizer without marks and without padding."""
    return _train_tokenizer(marks=False)


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory, marked: PreTrainedTokenizerFast) -> str:
    """An encoder without a classification head, of 30 positions that texts can have."""
    torch.manual_seed(1)
    config = RobertaConfig(
        vocab_size=420, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=32, pad_token_id=1,
    )  # fmt: skip
    return _save(tmp_path_factory.mktemp("roberta"), RobertaForMaskedLM(config), marked)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory, bare: PreTrainedTokenizerFast) -> str:
    """A causal model whose tokenizer has no padding and no marks."""
    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=420, n_embd=32, n_layer=2, n_head=2, n_positions=64,
        bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return _save(tmp_path_factory.mktemp("gpt2"), GPT2LMHeadModel(config), bare)


@pytest.fixture(scope="session")
def warmth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences that are cold or warm, 64 of each."""
    return _write(tmp_path_factory.mktemp("data") / "warmth.jsonl", _sentences(0, 128))


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of this name and text, and says where it is."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written
