"""Control vectors: files that repeng and llama.cpp write are read, and all others refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.weights.control_vectors import VectorShape, read, read_for, steered, write
from marith.scoring.weights.lora_files import Adapter
from marith.testing import tiny_model

MODEL = tiny_model()
WIDTH, LAYERS = MODEL.config.hidden_size, MODEL.config.num_hidden_layers


def directions(*layers: int, seed: int = 0) -> dict[int, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {layer: torch.randn(WIDTH, generator=draw) for layer in layers}


def save(
    path: Path, arrays: dict[str, Any], hint: Any = "llama", arch: str = "controlvector"
) -> str:
    """Write a file by the `gguf` package, call by call as repeng's `export_gguf` does."""
    writer = gguf.GGUFWriter(path, arch)
    if hint is not None:
        add = writer.add_string if isinstance(hint, str) else writer.add_uint32
        add("controlvector.model_hint", hint)
    writer.add_uint32("controlvector.layer_count", len(arrays))
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def row(size: int = WIDTH, kind: Any = np.float32) -> Any:
    return np.ones(size, kind)


def test_a_file_of_repeng_is_read_unchanged(tmp_path: Path) -> None:
    made = directions(1, 0)
    name = save(tmp_path / "a.gguf", {f"direction.{n}": one.numpy() for n, one in made.items()})
    vector = read(name, MODEL)
    assert (vector.name, vector.model_hint) == (name, "llama")
    assert sorted(vector.directions) == [0, 1]
    assert all(torch.equal(vector.directions[n], one) for n, one in made.items())
    assert vector.nbytes == 2 * 4 * WIDTH


def test_a_written_file_is_read_by_the_gguf_package_and_by_us(tmp_path: Path) -> None:
    made = directions(1, 0)
    write(tmp_path / "a.gguf", made, "llama")
    other = gguf.GGUFReader(tmp_path / "a.gguf")
    assert {one.name: one.data.tolist() for one in other.tensors} == {
        f"direction.{n}": one.tolist() for n, one in made.items()
    }
    fields = {key: other.fields[key].contents() for key in other.fields if "." in key}
    assert fields["general.architecture"] == "controlvector"
    assert fields["controlvector.model_hint"] == "llama"
    assert fields["controlvector.layer_count"] == 2
    ours = read(str(tmp_path / "a.gguf"), MODEL)
    assert all(torch.equal(ours.directions[n], one) for n, one in made.items())
    twin = save(tmp_path / "b.gguf", {f"direction.{n}": one.numpy() for n, one in made.items()})
    assert read(twin, MODEL).digest == ours.digest


def damaged(change: Callable[[bytes], bytes]) -> Callable[[Path], str]:
    def make(path: Path) -> str:
        write(path, directions(0, 1), "llama")
        path.write_bytes(change(path.read_bytes()))
        return str(path)

    return make


def written(arrays: dict[str, Any], *given: Any) -> Callable[[Path], str]:
    return lambda path: save(path, arrays, *given)


NAN = np.full(WIDTH, np.nan, np.float32)
REFUSED: dict[str, Callable[[Path], str]] = {
    "another model: its directions have 31 numbers, and this model's states 32": written(
        {"direction.1": row(WIDTH - 1)}
    ),
    "another model: it has a direction for layer 2, and the layers of this model are": written(
        {"direction.2": row()}
    ),
    "made for a model of type 'qwen2', not 'llama'": written({"direction.1": row()}, "qwen2"),
    "has controlvector.model_hint=7": written({"direction.1": row()}, 7),
    "holds no directions": written({}),
    "holds 'direction.-1'": written({"direction.-1": row()}),
    "holds 'direction.01'": written({"direction.01": row()}),
    "holds 'other.1'": written({"direction.1": row(), "other.1": row()}),
    "has the architecture 'llama', not 'controlvector'": written(
        {"direction.1": row()}, "llama", "llama"
    ),
    "xxxx', not 'controlvector'": written({}, "llama", "x" * 9999),
    "in F16; a direction is one row in F32": written({"direction.1": row(kind=np.float16)}),
    "in F32; a direction is one row in F32": written({"direction.1": row().reshape(2, -1)}),
    "not a finite number in direction.1": written({"direction.1": NAN}),
    "is not a GGUF file": damaged(lambda raw: b"PICK" + raw[4:]),
    "ends within its header": damaged(lambda raw: raw[:60]),
    "ends within direction.1; copy the file again": damaged(lambda raw: raw[:-3]),
    "ends before its last tensor": damaged(lambda raw: raw[: -8 * WIDTH - 1]),
}


@pytest.mark.parametrize("says", REFUSED)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, says: str) -> None:
    name = REFUSED[says](tmp_path / "a.gguf")
    with pytest.raises(ModelError) as caught:
        read(name, MODEL)
    assert says in str(caught.value)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(name) + 300


@pytest.mark.parametrize("name", ["nowhere.gguf", "", ".", "owner/name"])
def test_what_is_no_file_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"there is no control vector .*; it is a GGUF file"):
        read(name, MODEL)


KINDS = [
    ("gpt_neox", "gptneox"), ("gpt_neox", "gpt_neox"), ("qwen2", "qwen2"), ("mistral", "llama"),
    ("gemma3_text", "gemma3"), ("qwen3_moe", "qwen3moe"), ("llama", None), ("llama", ""),
    ("cohere", "command-r"), ("deepseek_v2", "deepseek2"), ("deepseek_v3", "deepseek2"),
    ("granitemoehybrid", "granitehybrid"), ("gpt_bigcode", "starcoder"), ("phi", "phi2"),
    ("qwen2_5_vl", "qwen2vl"), ("hunyuan_v1_dense", "hunyuan-dense"), ("olmo3", "olmo2"),
    ("falcon_mamba", "mamba"), ("made_here", "other"), ("command-r", "cohere"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "hint"), KINDS)
def test_the_hint_may_be_the_name_of_either_library(
    tmp_path: Path, kind: str, hint: str | None
) -> None:
    model = copy.copy(MODEL)
    model.config = copy.deepcopy(MODEL.config)
    model.config.model_type = kind
    name = save(tmp_path / "a.gguf", {"direction.1": row()}, hint)
    assert read(name, model).model_hint == (hint or "")


@pytest.mark.parametrize(
    ("kind", "hint"), [("mamba", "mamba2"), ("gemma3_text", "gemma2"), ("mistral", "qwen2")]
)
def test_the_hint_may_not_name_another_type(tmp_path: Path, kind: str, hint: str) -> None:
    fits = VectorShape(LAYERS, WIDTH, (kind,))
    name = save(tmp_path / "a.gguf", {"direction.1": row()}, hint)
    with pytest.raises(ModelError, match=f"a model of type '{hint}', not '{kind}'"):
        read_for(name, fits)


def test_an_adapter_is_the_sum_of_vectors_by_strength(tmp_path: Path) -> None:
    names = ["a", "b"]
    for name, made in (("a", directions(0)), ("b", directions(0, 1, seed=1))):
        write(tmp_path / f"{name}.gguf", made, "llama")
    a, b = (read(str(tmp_path / f"{name}.gguf"), MODEL) for name in names)
    both = steered(None, [(a, 2.0), (b, -0.5)], "all", ["first", "second"])
    want = 2 * a.directions[0] - 0.5 * b.directions[0]
    torch.testing.assert_close(both.shifts["first"], want)
    torch.testing.assert_close(both.shifts["second"], -0.5 * b.directions[1])
    assert not steered(None, [(a, 0.0)], "all", ["first", "second"]).shifts
    with pytest.raises(ModelError, match="with strength 3e\\+38 is too large for float32"):
        steered(None, [(a, 3e38)], "all", ["first", "second"])


def test_the_key_differs_with_files_strengths_positions_and_lora(tmp_path: Path) -> None:
    vectors = []
    for seed in (0, 1):
        write(tmp_path / "a.gguf", directions(0, seed=seed), "llama")
        vectors.append(read(str(tmp_path / "a.gguf"), MODEL))
    layers, lora = ["first", "second"], Adapter("lora", "digest", {}, {})
    first = [(vectors[0], 1.0)]
    made = [
        steered(None, first, "all", layers),
        steered(None, [(vectors[0], 1.5)], "all", layers),
        steered(None, [(vectors[1], 1.0)], "all", layers),
        steered(None, first, "answer", layers),
        steered(None, first * 2, "all", layers),
        steered(lora, first, "all", layers),
    ]
    assert len({one.key for one in made}) == len({*made}) == len(made)
    assert steered(None, first, "all", layers) == made[0]
