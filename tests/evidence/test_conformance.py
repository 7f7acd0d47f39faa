"""The conformance suite for LlamaIndex's LLMs on pocket itself; the other tests use its draft."""

from __future__ import annotations

import pytest
from conformance_pocket import Pocket, save_thinking


@pytest.fixture(scope="session")
def thinking_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_thinking(tmp_path_factory.mktemp("thinking"))


class TestMarith(Pocket):
    """All checks; none is left out."""

    model = "pocket"
