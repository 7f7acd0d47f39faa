"""LangChain's own suite for chat models, on a small real model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from langchain_marith import ChatMarith

TERMS = {"a": "a b c", "b": "x y z"}


@pytest.fixture(autouse=True)
def _model_from_the_environment(tiny_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARITH_MODEL", tiny_dir)


class Spoken:
    """What both suites are told of the model."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatMarith

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"formula": "2*a - 0.5*b", "terms": TERMS, "seed": 2}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        """A local model has no key to show and nothing to try again."""
        return {"temperature": 0.7, "max_tokens": 40, "timeout": 60, "stop": []}

    @property
    def has_tool_calling(self) -> bool:
        return False

    @property
    def has_structured_output(self) -> bool:
        return False


class TestUnit(Spoken, ChatModelUnitTests):
    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"MARITH_MODEL": "pocket"}, {}, {"model": "pocket"}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
class TestIntegration(Spoken, ChatModelIntegrationTests):
    @property
    def model_override_value(self) -> str:
        return "pocket"

    @property
    def supports_anthropic_inputs(self) -> bool:
        return False
