"""Files of a term that are written again under the same path: the next request reads them anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from safetensors.torch import save_file
from support.held_passes import becomes_true, endless_engine, endless_model, loaded_objects

from marith import Engine, ModelError, Request, Sampling, Stop
from marith.scoring.weights import control_vectors
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

LAYER = "model.layers.0.mlp.down_proj"
Write = Callable[[Path, int], None]


def write_ngram(path: Path, version: int) -> None:
    path.write_text(("a b c d " * 9, "d d c c " * 9)[version], encoding="utf-8")


def write_adapter(path: Path, version: int) -> None:
    path.mkdir(exist_ok=True)
    weight = endless_model(64)[0].get_submodule(LAYER).weight
    draw = torch.Generator().manual_seed(version)
    key, (outputs, inputs) = f"base_model.model.{LAYER}.lora_{{}}.weight", weight.shape
    tensors = {
        key.format("A"): torch.randn(4, inputs, generator=draw),
        key.format("B"): torch.randn(outputs, 4, generator=draw),
    }
    save_file(tensors, path / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 4}
    (path / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


def write_model(path: Path, version: int) -> None:
    tiny_model(seed=3 + version).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)


def write_classifier(path: Path, version: int) -> None:
    tiny_classifier(seed=3 + version).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)


def write_vector(path: Path, version: int) -> None:
    draw = torch.Generator().manual_seed(version)
    width = endless_model(64)[0].config.hidden_size
    control_vectors.write(path, {1: torch.randn(width, generator=draw)}, "llama")


KINDS: dict[str, tuple[Write, str]] = {
    "ngram": (write_ngram, "0.3*M + ngram({!r})"),
    "adapter": (write_adapter, "prompted(adapter={!r})"),
    "vector": (write_vector, "prompted(vectors={{{!r}: 3.0}})"),
    "model": (write_model, "0.3*M + prompted(model={!r})"),
    "classifier": (write_classifier, "M + 30*classifier({!r}, label=1)"),
}


@pytest.fixture
def one() -> Iterator[Engine]:
    with endless_engine(2000) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_request_reads_them_and_a_running_one_keeps_its_own(
    tmp_path: Path, one: Engine, kind: str
) -> None:
    write, formula = KINDS[kind]
    path = tmp_path / "file"
    asked = Request("a b", formula.format(str(path)), sampling=Sampling(0.0), stop=Stop(40))
    write(path, 0)
    first = one.submit(asked).result(60).tokens
    assert one.submit(asked).result(60).tokens == first
    running = one.submit(asked)
    chunks = iter(running)
    begun = list(next(chunks).tokens)
    write(path, 1)
    second = one.submit(asked).result(60).tokens
    assert begun + [token for chunk in chunks for token in chunk.tokens] == first
    assert second != first
    with endless_engine(2000) as fresh:
        assert fresh.submit(asked).result(60).tokens == second


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_version_that_no_request_uses_is_dropped(
    tmp_path: Path, one: Engine, kind: str
) -> None:
    write, formula = KINDS[kind]
    path, kept = tmp_path / "file", list[ref[Any]]()
    [base] = loaded_objects(one, Request("a b"))
    for version in (0, 1, 0, 1):
        write(path, version)
        request = Request("a b", formula.format(str(path)), stop=Stop(1))
        one.submit(request).result(60)
        kept.append(loaded_objects(one, request)[-1])
        assert becomes_true(lambda: sum(each() is not None for each in kept) == 1)
    assert base not in kept


@pytest.mark.parametrize("kind", ["adapter", "ngram"])
def test_files_that_cannot_be_looked_at_are_an_error_of_marith(
    tmp_path: Path, one: Engine, kind: str
) -> None:
    _, formula = KINDS[kind]
    path = tmp_path / "file"
    path.mkdir()
    (path / "adapter_config.json").symlink_to(tmp_path / "absent")
    for name in (str(path), "a\0b"):
        with pytest.raises(ModelError):
            one.generate("a b", formula.format(name), max_tokens=1)
