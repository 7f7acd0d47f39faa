"""Checkpoints of bitsandbytes, torchao and compressed-tensors, made here, on a CPU.

`make quantised` installs the three libraries apart from the others, and runs this; each is skipped
where its library is absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, TorchAoConfig

from marith import Engine, Prompted
from marith.scoring.weights.locate import WEIGHTS

POCKET = str(WEIGHTS / "pocket")
CHAT = [{"role": "user", "content": "Tell me of your day."}]
TERMS: dict[str, Any] = {"rude": "You are rude.", "polite": Prompted(adapter="pocket-polite")}
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own


def saved(target: Path, config: Any) -> Path:
    model = AutoModelForCausalLM.from_pretrained(
        POCKET, quantization_config=config, dtype=torch.float32
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(POCKET).save_pretrained(target)
    return target


def held(path: Path, most: float) -> None:
    """Formulas and adapters over it are near those over pocket, in total variation."""
    with Engine.load(path) as engine, Engine.load("pocket") as pocket:
        for formula in ("M", "M - 0.5*rude", "polite"):
            rows = [each.next_logprobs(CHAT, formula, TERMS) for each in (engine, pocket)]
            far = float((rows[0].exp() - rows[1].exp()).abs().sum()) / 2
            print(f"{path.name}: {formula} {far:.3f}")
            assert 0 < far <= most
        assert engine.generate(CHAT, "M - 0.5*rude", TERMS, max_tokens=8).tokens


@pytest.mark.parametrize(("bits", "most"), [(8, 0.05), (4, 0.5)])
def test_a_checkpoint_of_bitsandbytes_gives_nearly_the_distributions_of_pocket(
    bits: int, most: float, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    how: dict[str, Any] = {f"load_in_{bits}bit": True}
    if bits == 4:
        how |= {"bnb_4bit_compute_dtype": torch.float32, "bnb_4bit_quant_type": "nf4"}
    held(saved(tmp_path / f"bitsandbytes-{bits}", BitsAndBytesConfig(**how)), most)


def test_a_checkpoint_of_torchao_gives_nearly_the_distributions_of_pocket(tmp_path: Path) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    held(saved(tmp_path / "torchao", config), 0.05)


def test_a_checkpoint_of_compressed_tensors_gives_nearly_the_distributions_of_pocket(
    tmp_path: Path,
) -> None:
    """As llm-compressor writes it: int8 weights with a scale a channel."""
    compressed = pytest.importorskip("compressed_tensors")
    quantization = pytest.importorskip("compressed_tensors.quantization")
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    weights = quantization.QuantizationArgs(num_bits=8, symmetric=True, strategy="channel")
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=weights)
    config = quantization.QuantizationConfig(
        config_groups={"group_0": scheme},
        ignore=["lm_head"],
        quantization_status=quantization.QuantizationStatus.FROZEN,
    )
    quantization.apply_quantization_config(model, config)
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            largest = module.weight.detach().abs().amax(dim=1, keepdim=True)
            module.weight_scale.data.copy_(largest / 127)
    compressor = compressed.ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(tmp_path / "compressed")
    compressor.update_config(str(tmp_path / "compressed"))
    AutoTokenizer.from_pretrained(POCKET).save_pretrained(tmp_path / "compressed")
    held(tmp_path / "compressed", 0.05)
