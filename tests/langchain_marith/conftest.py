"""How a test makes its chat model."""

from __future__ import annotations

from typing import Any

import pytest
from speaking_model import FORMULA, SAMPLING, TERMS, Make

from langchain_marith import ChatMarith


@pytest.fixture
def make(tiny_dir: str) -> Make:
    def made(**options: Any) -> ChatMarith:
        known = {"model": tiny_dir, "formula": FORMULA, "terms": TERMS, **SAMPLING}
        return ChatMarith(**{**known, **options})

    return made
