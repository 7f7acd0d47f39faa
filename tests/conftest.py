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
    from support.drafting import Small
    from support.house import House

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
    """Leave out a plugin of LangSmith's, which takes 4 ms of the processor's for every test."""
    manager = config.pluginmanager
    if manager.has_plugin("langsmith_plugin"):
        manager.unregister(name="langsmith_plugin")


def pytest_sessionstart() -> None:
    """The main thread starts without an event loop, as it does from Python 3.14 on.

    `asyncio.get_event_loop()` would otherwise make one there, and who calls it (LlamaIndex's
    `asyncio_run`) leaves it open for the next test with a loop of its own to lose.
    """
    asyncio.set_event_loop(None)


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays; it need not be looked through again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Tells a figure beside the dots of a run."""

    def tell(line: str) -> None:
        with capsys.disabled():
            print("\n  " + line, end="")

    return tell


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A two-layer Llama over the alphabet, saved as any checkpoint is."""
    from marith.testing import CHAT_TEMPLATE, tiny_model, tiny_tokenizer

    path: Path = tmp_path_factory.mktemp("tiny")
    tiny_model(seed=4, context_length=1024).save_pretrained(path)
    tiny_tokenizer(chat_template=CHAT_TEMPLATE).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """The engine over eight tokens, and what specifies it."""
    from support.drafting import build

    yield from build(tmp_path_factory.mktemp("eight"))


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One house for all tests of the engine."""
    from support.house import build

    yield from build(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def letters() -> Iterator[Engine]:
    """A model with random weights that speaks byte by byte."""
    from support.families import speaker

    from marith import Engine
    from marith.testing import tiny_model

    known = speaker("none")
    model = tiny_model(vocab=known.size, seed=6, sharpness=3.0, context_length=512)
    with Engine.load(model, tokenizer=known.tokenizer) as engine:
        yield engine


@pytest.fixture(scope="session")
def thinking_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that says what `THINKING` has, by a template that knows of reasoning."""
    from support.speaking_model import THINKING
    from transformers import AutoTokenizer

    from marith.scoring.weights.loader import locate
    from marith.testing import save_scripted

    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    return save_scripted(tmp_path_factory.mktemp("thinking"), THINKING, tokenizer)
