"""Checkpoints that are quantised already load, or one sentence says what is missing."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support.fp8_files import save_fp8, state_method

from marith import Engine, ModelError, Prompted
from marith.scoring.weights.locate import WEIGHTS
from marith.scoring.weights.quantised_files import quantised

POCKET = WEIGHTS / "pocket"
CHAT = [{"role": "user", "content": "Tell me of your day."}]
CPU = torch.device("cpu")
LORA = {"polite": Prompted(adapter="pocket-polite")}


@pytest.fixture(scope="module")
def fp8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fp8")
    save_fp8(str(POCKET), folder)
    return folder


def apart(one: Engine, other: Engine, *asked: Any) -> float:
    rows = [each.next_logprobs(CHAT, *asked) for each in (one, other)]
    return float((rows[0].exp() - rows[1].exp()).abs().sum()) / 2


def test_fp8_becomes_floats_on_a_cpu(fp8: Path) -> None:
    """It has 4 digits of a weight; formulas and adapters go over it."""
    with Engine.load(fp8) as engine, Engine.load("pocket") as pocket:
        assert 0 < apart(engine, pocket) <= 0.06
        assert apart(engine, pocket, "M - 0.5*rude", {"rude": "You are rude."}) <= 0.1
        assert apart(engine, pocket, "polite", LORA) <= 0.06
        assert "float32 on cpu" in repr(engine)


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"quant_method": "nobody"}, "is quantised by 'nobody', which marith does not know"),
        ({"bits": 4}, "is quantised by 'None', which marith does not know"),
        ([4], r"the quantization_config of '.*' is a JSON object, not \[4\]"),
        ({"quant_method": "eetq"}, r"EETQ .* requires kernels \(`pip install kernels`"),
        ({"quant_method": "gptq", "bits": 4}, r"GPTQ .* requires optimum \(`pip install optimum`"),
        ({"load_in_4bit": True}, r"requires bitsandbytes: `pip install -U bitsandbytes"),
    ],
)
def test_a_missing_package_is_named(stated: Any, problem: str, tmp_path: Path) -> None:
    for package in ("kernels", "optimum", "bitsandbytes"):
        if package in problem and find_spec(package):
            pytest.skip(f"{package} is installed")
    shutil.copytree(POCKET, tmp_path, dirs_exist_ok=True)
    state_method(tmp_path, stated)
    with pytest.raises(ModelError, match=problem):
        Engine.load(tmp_path)


def test_a_quantised_model_stays_quantised_if_its_method_runs_on_a_cpu() -> None:
    found = quantised("it", {"quantization_config": {"quant_method": "bitnet"}}, CPU)
    assert found is not None
    assert not found.unpacked
    assert quantised("it", {}, CPU) is None
