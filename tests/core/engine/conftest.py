"""One house for all tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from house import House, build


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from build(tmp_path_factory.mktemp("models"))
