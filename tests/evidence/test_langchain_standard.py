"""LangChain's own suite for chat models, on pocket: real weights, whatever they can do."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from support.speaking_model import sum_of

from langchain_marith import ChatMarith

OTHER_MODEL = "pocket-draft"


class Pocket:
    """What both suites ask of the model: how it is made, and what it can do."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatMarith

    @property
    def chat_model_params(self) -> dict[str, Any]:
        formal = "Write formally."
        return {"formula": "M + 0.2*(formal - M)", "terms": {"formal": formal}, "seed": 1}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        """LangChain's, warmer: at temperature 0 so small a model repeats itself for ever."""
        return {"temperature": 0.7, "max_tokens": 400, "timeout": 60, "stop": [], "max_retries": 2}


class TestUnit(Pocket, ChatModelUnitTests):
    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        options = {"model": "pocket-draft", "formula": "1.5*M", "device": "cpu", "dtype": "float32"}
        return {f"MARITH_{name.upper()}": value for name, value in options.items()}, {}, options


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
class TestIntegration(Pocket, ChatModelIntegrationTests):
    @property
    def model_override_value(self) -> str:
        return OTHER_MODEL

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        model = ChatMarith(**self.standard_chat_model_params, **self.chat_model_params)
        first = model.invoke(question := "Which is the largest of all oceans?")
        messages = [HumanMessage(question), first, HumanMessage("And which is the smallest?")]
        return sum_of(model.stream(messages)) if stream else model.invoke(messages)

    @property
    def supported_usage_metadata_details(self) -> dict[str, list[str]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}
