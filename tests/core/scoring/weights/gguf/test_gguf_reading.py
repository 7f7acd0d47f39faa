"""A GGUF file is read once, and its numbers are those of the library that defines the formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from support.ggml_files import POCKET, write_pocket
from support.gguf_families import SIZES, family_model, write_family
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from marith import Engine, ModelError
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.gguf.gguf_header import StoredTensor, read_header
from marith.scoring.weights.gguf.gguf_tokenizer import gguf_tokenizer
from marith.scoring.weights.gguf.gguf_weights import places_of, read_tensor

UNTYPED = "type 99"


def library_reads(kind: GGMLQuantizationType) -> bool:
    """Whether the library has the numbers of a type."""
    try:
        quants.dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


READ = [kind.name for kind in GGMLQuantizationType if library_reads(kind)]


def stored(path: Path, kind: str, blocks: int = 300) -> tuple[StoredTensor, Any]:
    """Blocks of random bytes in a file, whose scales are no infinities, and the bytes."""
    bytes_each = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1] if kind != UNTYPED else 32
    numbers = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][0] if kind != UNTYPED else 32
    data = np.random.default_rng(len(kind)).integers(0, 256, (blocks, bytes_each), np.uint8)
    path.write_bytes(b"GGUF" + data.tobytes())
    return StoredTensor("blk.0.one.weight", (blocks, numbers), kind, 4), data


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # scales that are random bits
@pytest.mark.parametrize("kind", READ)
def test_numbers_of_each_type_are_exactly_those_of_the_library(kind: str, tmp_path: Path) -> None:
    tensor, data = stored(tmp_path / "it", kind)
    wanted = quants.dequantize(data, GGMLQuantizationType[kind]).astype(np.float32)
    read = read_tensor(str(tmp_path / "it"), tensor).numpy()
    assert np.array_equal(read, wanted.reshape(tensor.shape), equal_nan=True)


@pytest.mark.parametrize("kind", ["Q8_1", "Q8_K", UNTYPED])
def test_a_type_that_nobody_reads_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    tensor, _ = stored(tmp_path / "it", kind)
    with pytest.raises(ModelError, match=rf"stored as {kind}, .*; backend='llama.cpp' may"):
        read_tensor(str(tmp_path / "it"), tensor)


def test_a_long_tensor_is_read_in_pieces_of_whole_blocks(tmp_path: Path) -> None:
    tensor, data = stored(tmp_path / "it", "Q4_1", 9001)
    data[:, :4] = 60
    (tmp_path / "it").write_bytes(b"GGUF" + data.tobytes())
    wanted = quants.dequantize(data, GGMLQuantizationType.Q4_1)
    assert np.array_equal(read_tensor(str(tmp_path / "it"), tensor).numpy(), wanted)


@pytest.mark.parametrize("family", SIZES)
def test_weights_have_the_places_that_transformers_gives_them(family: str, tmp_path: Path) -> None:
    model = family_model(family, 4096)
    write_family(model, tmp_path / "it.gguf", AutoTokenizer.from_pretrained(POCKET))
    processor = TENSOR_PROCESSORS.get(family, TensorProcessor)(model.config.to_dict())
    wanted = {"output.weight": "lm_head.weight", **get_gguf_hf_weights_map(model, processor)}
    assert places_of(read_header(tmp_path / "it.gguf"), model) == wanted


def test_a_file_is_read_by_one_reader_and_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers reads it by the library's reader, and asks for all names at every module."""
    file, made = write_pocket(tmp_path, ("q8_0",)) / "q8_0.gguf", []
    begin = gguf.TensorNameMap.__init__

    def counted(self: Any, *given: Any) -> None:
        made.append(given)
        begin(self, *given)

    monkeypatch.setattr(gguf.TensorNameMap, "__init__", counted)
    monkeypatch.setattr(gguf, "GGUFReader", None)
    with Engine.load(file) as engine:
        assert engine.generate("Hello").tokens
    assert len(made) == 1


@pytest.mark.parametrize("merges", [True, False])
def test_a_tokenizer_is_the_one_that_transformers_builds(merges: bool, tmp_path: Path) -> None:
    """Of Gemma's files, which list no merges, these follow from the order of the words."""
    words = ["<pad>", "<eos>", "<bos>", "<unk>", *"abcde ", "ab", "cd", "abcd", "▁", "▁a", "▁ab"]
    words += ["  ", "de", "cde", "bcd", "é"]
    writer = gguf.GGUFWriter(tmp_path / "it.gguf", "gemma3")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([float(-i % 7) for i in range(len(words))])
    writer.add_token_types([3] * 4 + [1] * (len(words) - 4))
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    if merges:
        writer.add_token_merges(["a b", "c d", "ab cd"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    built = gguf_tokenizer("it", read_header(tmp_path / "it.gguf"))
    architecture, described, named = get_gguf_tokenizer(str(tmp_path / "it.gguf"))
    backend, _ = convert_gguf_tokenizer(architecture, described)
    wanted = PreTrainedTokenizerFast(tokenizer_object=backend, **named)
    assert built.backend_tokenizer.to_str() == wanted.backend_tokenizer.to_str()
    assert built.special_tokens_map == wanted.special_tokens_map


def test_a_vocabulary_shares_the_model_of_its_tokenizer() -> None:
    """A copy as JSON takes seconds where there are 262,000 words."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    assert vocabulary.raw.to_str() == tokenizer.backend_tokenizer.to_str()
    tokenizer.backend_tokenizer.enable_truncation(2)
    tokenizer.add_tokens(["<another>"])
    assert len(vocabulary.encode("one two three four five <another>")) > 5
    assert "<another>" not in vocabulary.raw.get_vocab()


def test_a_whole_tensor_has_memory_of_its_own(tmp_path: Path) -> None:
    tensor, _ = stored(tmp_path / "it", "F32", 64)
    read = read_tensor(str(tmp_path / "it"), tensor)
    before = read.clone()
    (tmp_path / "it").write_bytes(b"GGUF" + bytes(256))
    assert torch.equal(read.nan_to_num(), before.nan_to_num())
