"""Heads: kept where they know the classes, replaced where they do not, and said so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from marith.errors import ModelError, RequestError
from marith.models import attribute
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer
from marith.training.base import Base, Head, choose, load
from marith.training.settings import Settings


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    """A saved classifier of `no` and `yes`."""
    tiny_classifier(seed=3).save_pretrained(tmp_path / "judge")
    tiny_tokenizer().save_pretrained(tmp_path / "judge")
    return tmp_path / "judge"


def loaded(base: Path | str, labels: Sequence[str], data: Path, limit: int | None = None) -> Base:
    settings = Settings(str(base), data, data.parent / "out", max_length=limit)
    torch.manual_seed(0)
    return load(settings, labels, torch.device("cpu"))


LABELLED = {
    ("no", "yes"): Head(("no", "yes"), (0, 1), kept=True),
    ("YES", "no"): Head(("no", "yes"), (1, 0), kept=True),
    ("0", "1"): Head(
        ("no", "yes"), (0, 1), True, "the head is kept, in which 0 is 'no', 1 is 'yes'"
    ),
    ("-1", "1"): Head(
        ("-1", "1"),
        (0, 1),
        False,
        "the head is replaced: its classes were no / yes, those of the data are -1 / 1",
    ),
    ("a", "b", "c"): Head(
        ("a", "b", "c"),
        (0, 1, 2),
        False,
        "the head is replaced: its classes were no / yes, those of the data are a / b / c",
    ),
}


@pytest.mark.parametrize("labels", LABELLED, ids="/".join)
def test_a_head_is_kept_exactly_where_it_knows_the_classes(
    labels: tuple[str, ...], judge: Path, warmth: Path
) -> None:
    base, before = loaded(judge, labels, warmth), tiny_classifier(seed=3)
    assert base.head == LABELLED[labels]
    assert torch.equal(base.model.score.weight, before.score.weight) is base.head.kept
    assert torch.equal(base.model.model.norm.weight, before.model.norm.weight)
    assert tuple(base.model.config.id2label.values()) == base.head.names
    assert base.model.score.out_features == base.model.config.num_labels == len(labels)


def test_classes_without_names_take_those_of_the_data() -> None:
    config = tiny_classifier(labels=("LABEL_0", "LABEL_1")).config
    config.architectures = ["LlamaForSequenceClassification"]
    assert choose(config, ("0", "1")) == Head(("0", "1"), (0, 1), kept=True)
    assert not choose(config, ("cold", "warm")).kept


def test_a_language_model_gets_a_head_without_a_warning(gpt2: str, warmth: Path) -> None:
    base = loaded(gpt2, ("a", "b", "c"), warmth)
    assert base.head == Head(("a", "b", "c"), (0, 1, 2), kept=False)
    assert base.model.score.weight.shape == (3, 32)
    assert base.model.config.pad_token_id == base.padding == 0


def test_the_context_of_a_roberta_leaves_out_the_positions_of_its_padding(
    roberta: str, warmth: Path
) -> None:
    base = loaded(roberta, ("a", "b"), warmth)
    assert base.limit == base.tokenizer.model_max_length == 30
    with pytest.raises(RequestError, match=r"max_length is at most 30 for .*, not 31"):
        loaded(roberta, ("a", "b"), warmth, limit=31)
    assert loaded(roberta, ("a", "b"), warmth, limit=12).limit == 12


def test_a_language_model_stored_by_its_output_alone_keeps_its_embedding(
    tmp_path: Path, warmth: Path
) -> None:
    model = tiny_model(seed=5)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    embedding = stored.pop("model.embed_tokens.weight")
    assert "lm_head.weight" not in stored
    save_file(
        {**stored, "lm_head.weight": embedding}, tmp_path / "model.safetensors", {"format": "pt"}
    )
    base = loaded(tmp_path, ("a", "b"), warmth)
    assert torch.equal(base.model.model.embed_tokens.weight, embedding)


def test_a_base_that_lacks_weights_is_refused(judge: Path, warmth: Path) -> None:
    stored = load_file(judge / "model.safetensors")
    stored.pop("model.norm.weight")
    save_file(stored, judge / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights of .*: 'model\.norm\.weight'"):
        loaded(judge, ("no", "yes"), warmth)


def test_a_roberta_judges_as_many_tokens_as_it_has_positions(roberta: str, tmp_path: Path) -> None:
    """Its tokenizer does not say how many these are."""
    judge = AutoModelForSequenceClassification.from_pretrained(roberta, num_labels=2).eval()
    tokenizer = AutoTokenizer.from_pretrained(roberta)
    judge.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    long = "the soup is lovely " * 10
    with pytest.warns(UserWarning, match="reads the last 30 tokens"):
        (chance,) = attribute([long], str(tmp_path), 1)
    first, *others = tokenizer(long)["input_ids"]
    with torch.no_grad():
        logits = judge(torch.tensor([[first, *others[-29:]]])).logits
    assert chance == pytest.approx(float(logits.softmax(dim=-1)[0, 1]), abs=1e-6)
