"""Pocket as GGUF files in four formats, and an engine over each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ggml_files import FORMATS, POCKET, write_pocket
from transformers import AutoTokenizer

from marith import Engine


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pocket(tmp_path_factory.mktemp("ggml"), FORMATS)


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
