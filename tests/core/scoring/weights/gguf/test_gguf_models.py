"""A GGUF file is the model that it was written from, or one sentence says why it is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.ggml_files import POCKET, write_pocket
from support.gguf_families import SIZES, family_model, write_family
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.gguf_file import write_gguf
from marith import Engine, ModelError, Prompted, Sampling, Stop
from marith.scoring.weights.gguf.gguf_header import read_header
from marith.scoring.weights.kinds import LANGUAGE_MODEL
from marith.scoring.weights.locate import context_length_of, locate
from marith.scoring.weights.placing import Placement
from marith.scoring.weights.reading import read

TEXT = torch.tensor([[5, 77, 300, 9, 12, 1000, 4, 4, 900, 31]])
CHAT = [{"role": "user", "content": "Tell me of 365 dogs and of <|end|> ½ é."}]
FORMULA, TERMS = "M - 0.5*rude + 0.3*kind", {"rude": "You are rude.", "kind": "You are kind."}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture(scope="module")
def pocket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pocket` in three types of numbers."""
    return write_pocket(tmp_path_factory.mktemp("gguf"), ("f32", "f16", "q8_0"))


def loaded(path: Path) -> Any:
    return read(LANGUAGE_MODEL, str(path), str(path), Placement("cpu", "float32")).model


@torch.inference_mode()
def far(model: Any, other: Any) -> float:
    return float((model(TEXT).logits - other(TEXT).logits).abs().max())


@pytest.mark.parametrize("family", SIZES)
def test_each_architecture_computes_what_its_model_does(
    family: str, tmp_path: Path, tokenizer: Any
) -> None:
    model = family_model(family, 4096)
    write_family(model, tmp_path / "it.gguf", tokenizer)
    read_back = loaded(tmp_path / "it.gguf")
    assert far(model, read_back) <= 2e-5
    assert context_length_of(str(tmp_path / "it.gguf")) == 128


ROTARY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}),
    (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        {"type": "yarn", "factor": 4.0, "original_context_length": 32},
    ),
]


@pytest.mark.parametrize(("rope", "stated"), ROTARY)
def test_scaled_frequencies_are_read(
    rope: dict[str, Any], stated: dict[str, Any], tmp_path: Path, tokenizer: Any
) -> None:
    model = family_model("llama", 4096, rope_parameters={"rope_theta": 10000.0, **rope})
    write_family(
        model,
        tmp_path / "it.gguf",
        tokenizer,
        **{f"rope__scaling__{key}": value for key, value in stated.items()},
    )
    assert far(model, loaded(tmp_path / "it.gguf")) <= 2e-5
    plain = family_model("llama", 4096)
    plain.load_state_dict(model.state_dict())
    assert far(model, plain) > 0.01  # the scaling matters


def test_the_frequencies_of_llama_3_are_a_tensor(tmp_path: Path, tokenizer: Any) -> None:
    """llama.cpp's converter writes by which number each frequency is divided."""
    scaled = {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
    }  # fmt: skip
    model = family_model("llama", 4096, rope_parameters=scaled)
    plain = family_model("llama", 4096)
    plain.load_state_dict(model.state_dict())
    divided = plain.model.rotary_emb.inv_freq / model.model.rotary_emb.inv_freq
    write_family(
        model, tmp_path / "it.gguf", tokenizer, extra={"rope_freqs.weight": divided.numpy()}
    )
    assert float(divided.max()) > 2
    assert far(model, plain) > 0.01
    assert far(model, loaded(tmp_path / "it.gguf")) <= 2e-5


def test_texts_of_a_file_are_those_of_the_model_and_terms_may_be_files(pocket: Path) -> None:
    """Float32 and float16 lose nothing of weights that were stored in bfloat16."""
    asked = (FORMULA, TERMS, Sampling(temperature=0), Stop(24))
    wanted = Engine.shared("pocket").generate(CHAT, *asked)
    for numbers in ("f32", "f16"):
        with Engine.load(pocket / f"{numbers}.gguf") as engine:
            assert engine.generate(CHAT, *asked).tokens == wanted.tokens
            assert engine.context_length == 1024
    far_off = Prompted("You are rude.", model=str(pocket / "q8_0.gguf"))
    mixed = Engine.shared("pocket").next_logprobs(CHAT, "M - 0.5*far", {"far": far_off})
    plain = Engine.shared("pocket").next_logprobs(CHAT, "M - 0.5*rude", TERMS)
    assert 0 < float((mixed.exp() - plain.exp()).abs().sum()) < 0.05


def test_a_file_of_the_hub_is_named_behind_a_colon(
    pocket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "models--maker--pocket-GGUF"
    (home / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    (home / "snapshots" / ("0" * 40) / "f16.gguf").symlink_to(pocket / "f16.gguf")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert context_length_of("maker/pocket-GGUF:f16.gguf") == 1024
    with Engine.load("maker/pocket-GGUF:f16.gguf") as engine:
        assert repr(engine).startswith("<Engine 'maker/pocket-GGUF:f16.gguf'")
    with pytest.raises(ModelError, match="nothing of this name in the hub's cache"):
        Engine.load("maker/pocket-GGUF:q9.gguf")


def test_a_tokenizer_can_be_given(tmp_path: Path, tokenizer: Any) -> None:
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    path = tmp_path / "it.gguf"
    write_gguf(model, path, "f32", tokenizer, splits="nobody-knows")
    with pytest.raises(ModelError, match=r"splits texts .* 'nobody-knows' does; .*tokenizer="):
        Engine.load(path)
    with Engine.load(path, tokenizer=POCKET) as engine:
        assert engine.encode("of 365 dogs") == Engine.shared("pocket").encode("of 365 dogs")
    with pytest.raises(ModelError, match="leave out tokenizer="):
        Engine.load("pocket", tokenizer=POCKET)


def rewritten(source: Path, target: Path, **changes: Any) -> Path:
    """A file with other metadata."""
    import gguf

    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, changes.pop("architecture"))
    for key, value in changes.items():
        writer.add_uint32(key.replace("__", "."), value)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    if "split__count" not in changes:
        writer.add_tensor("blk.0.extra.weight", np.ones(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def test_a_file_that_cannot_be_loaded_is_refused_in_one_sentence(
    pocket: Path, tmp_path: Path
) -> None:
    whole = (pocket / "f16.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:5000])
    (tmp_path / "half.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none.gguf").write_bytes(b"PK" + whole[2:])
    wrong = {
        "absent.gguf": r"there is no model",
        "cut.gguf": r"complete GGUF file: it has 5000 bytes, and ends within its header; copy it",
        "half.gguf": r"is not a complete GGUF file: it ends before its last tensor",
        "none.gguf": r"does not begin with GGUF",
    }
    for file, problem in wrong.items():
        with pytest.raises(ModelError, match=problem):
            Engine.load(tmp_path / file)
    bert = rewritten(pocket / "f16.gguf", tmp_path / "bert.gguf", architecture="bert")
    with pytest.raises(ModelError, match=r"architecture 'bert'; .* backend='llama\.cpp'"):
        Engine.load(bert)
    split = rewritten(
        pocket / "f16.gguf", tmp_path / "part.gguf", architecture="llama", split__count=3
    )
    with pytest.raises(ModelError, match=r"one of 3 files; `llama-gguf-split --merge`"):
        Engine.load(split)
    with pytest.raises(ModelError, match="is on this machine; leave out revision"):
        Engine.load(pocket / "f16.gguf", revision="main")
    with pytest.raises(ModelError, match=r"json; a GGUF file in it is '.*f16\.gguf'"):
        Engine.load(pocket)
    with pytest.raises(ModelError, match=r"there is no model '/nowhere\.gguf'"):
        locate("/nowhere.gguf")


def test_a_tensor_without_a_place_is_not_left_out(tmp_path: Path, tokenizer: Any) -> None:
    model = family_model("llama", 4096)
    extra = {"blk.0.attn_sinks.weight": np.ones(4, np.float32)}
    write_family(model, tmp_path / "it.gguf", tokenizer, extra=extra)
    with pytest.raises(ModelError, match=r"'blk\.0\.attn_sinks\.weight' .* no place for"):
        Engine.load(tmp_path / "it.gguf")


def test_junk_is_refused_and_takes_no_time(pocket: Path, tmp_path: Path) -> None:
    """Bytes of the header are changed at random: a header is read, or a ModelError says why not."""
    draw, whole = random.Random(20), bytearray((pocket / "q8_0.gguf").read_bytes())
    read_well = 0
    for i in range(300):
        junk = bytearray(whole[: 60_000 if i % 3 else len(whole)])
        for _ in range(draw.randint(1, 6)):
            junk[draw.randrange(4, 2000)] = draw.randrange(256)
        path = tmp_path / f"{i}.gguf"
        path.write_bytes(junk)
        try:
            read_well += bool(read_header(path).tensors)
        except ModelError:
            pass
        path.unlink()
    assert 0 < read_well < 300
