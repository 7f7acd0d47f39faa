"""How a test makes its chat model: over a tiny checkpoint, or over what is written for it."""

from __future__ import annotations

from typing import Any

import pytest
from support.langchain_models import FORMULA, SAMPLING, SCRIPT, STYLE, TERMS, Make, Writer

from langchain_marith import ChatMarith, MarithLLM


@pytest.fixture
def make(tiny_dir: str) -> Make:
    """A model over random weights: two formulas, two texts."""

    def made(**options: Any) -> ChatMarith:
        known = {"model": tiny_dir, "formula": FORMULA, "terms": TERMS, **SAMPLING}
        return ChatMarith(**{**known, **options})

    return made


@pytest.fixture
def writer(tiny_dir: str) -> Writer:
    """The same as a model of texts."""
    known = {"model": tiny_dir, "formula": FORMULA, "terms": TERMS, **SAMPLING}
    return lambda **options: MarithLLM(**{**known, **options})


@pytest.fixture(scope="session")
def scripted_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that says what `SCRIPT` has."""
    from marith.testing import save_scripted

    return save_scripted(tmp_path_factory.mktemp("scripted"), SCRIPT)


@pytest.fixture
def scripted(scripted_dir: str) -> Make:
    """A model of two terms that says what is written for it."""

    def made(**options: Any) -> ChatMarith:
        known = {"model": scripted_dir, "max_tokens": 200, **STYLE}
        return ChatMarith(**{**known, **options})

    return made
