"""A browser, a server that takes formulas, and one that takes none; `make browser` runs these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import ARGUMENTS, CHROMIUM, KEY, Serving, opened, serving

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.enable_socket)
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def taking(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that takes formulas, without a key."""
    with serving(tmp_path_factory.mktemp("taking"), "--allow-formulas") as server:
        yield server


@pytest.fixture(scope="session")
def locked(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a key, that takes no formulas."""
    with serving(tmp_path_factory.mktemp("locked"), key=KEY) as server:
        yield server


@pytest.fixture
def page(browser: Any, taking: Serving) -> Iterator[Any]:
    """The page of the server that takes formulas; nothing goes wrong in it."""
    page = opened(browser, taking.url)
    page.wait_for_selector("#normalised:not(:empty)")
    yield page
    problems = page.problems
    page.context.close()
    assert problems == []
