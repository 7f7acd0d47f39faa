"""Pocket as GGUF files in four formats, and an engine over each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ggml_files import FORMATS, POCKET
from transformers import AutoModelForCausalLM, AutoTokenizer

from marith import Engine
from marith.testing.gguf_file import write_gguf


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    made = tmp_path_factory.mktemp("ggml")
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    for numbers in FORMATS:
        write_gguf(model, made / f"{numbers}.gguf", numbers, tokenizer)
    return made


@pytest.fixture(params=FORMATS)
def numbers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(folder: Path, numbers: str) -> Iterator[Engine]:
    with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as loaded:
        yield loaded


@pytest.fixture
def exact(folder: Path) -> Iterator[Engine]:
    with Engine.load(folder / "f32.gguf", backend="llama.cpp") as loaded:
        yield loaded
