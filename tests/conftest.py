"""What all tests share: a small real model in a directory, and no access to the hub."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.checked_engine import CheckedEngine
    from support.small_engine import SmallEngine

    from marith import Engine

gc.disable()  # until tests are collected: of what they import nothing is garbage
os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub
# Inspect asks it for each of its evaluations: half a second, in which all packages are read.
metadata.packages_distributions = functools.cache(metadata.packages_distributions)

# How many examples of each law, and the same in every run: what fails is of the change. `make
# evidence` draws others, and more. None is timed, for machines are shared.
settings.register_profile("ci", deadline=None, max_examples=16, derandomize=True)
settings.register_profile("evidence", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("MARITH_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Disable a plugin of LangSmith's, which takes 4 ms of the processor for every test."""
    manager = config.pluginmanager
    if manager.has_plugin("langsmith_plugin"):
        manager.unregister(name="langsmith_plugin")


def pytest_sessionstart() -> None:
    """Start the main thread without an event loop, as Python 3.14 and later do.

    `asyncio.get_event_loop()` would otherwise make one there. Its callers (LlamaIndex's
    `asyncio_run`) do not close it, and a later test with a loop of its own loses it.
    """
    asyncio.set_event_loop(None)


def pytest_collection_finish() -> None:
    """Freeze the objects of thousands of tests, so that the garbage collector skips them."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Return a function that prints a figure beside the dots of a run."""

    def tell(line: str) -> None:
        with capsys.disabled():
            print("\n  " + line, end="")

    return tell


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the directory of a two-layer Llama over the alphabet, saved as any checkpoint."""
    from marith.testing import CHAT_TEMPLATE, tiny_model, tiny_tokenizer

    path: Path = tmp_path_factory.mktemp("tiny")
    tiny_model(seed=4, context_length=1024).save_pretrained(path)
    tiny_tokenizer(chat_template=CHAT_TEMPLATE).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallEngine]:
    """Yield the engine over eight tokens, and its reference decoder."""
    from support.small_engine import build

    yield from build(tmp_path_factory.mktemp("eight"))


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedEngine]:
    """Yield the engine over tiny models, and its reference decoder, for all tests of the engine."""
    from support.checked_engine import build

    yield from build(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def letters() -> Iterator[Engine]:
    """Yield an engine over a model with random weights and a token for each byte."""
    from support.chat_families import speaker

    from marith import Engine
    from marith.testing import tiny_model

    known = speaker("none")
    model = tiny_model(vocab=known.size, seed=6, sharpness=3.0, context_length=512)
    with Engine.load(model, tokenizer=known.tokenizer) as engine:
        yield engine


@pytest.fixture(scope="session")
def letters_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the directory of a model with random weights and a token for each byte."""
    from support.chat_families import speaker

    from marith.testing import tiny_model

    path, known = tmp_path_factory.mktemp("letters"), speaker("none")
    tiny_model(vocab=known.size, seed=6, context_length=512).save_pretrained(path)
    known.tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="session")
def thinking_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a checkpoint that answers with `THINKING`, with a template that knows reasoning."""
    from support.langchain_models import THINKING
    from transformers import AutoTokenizer

    from marith.scoring.weights.loader import locate
    from marith.testing import save_scripted

    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    return save_scripted(tmp_path_factory.mktemp("thinking"), THINKING, tokenizer)
