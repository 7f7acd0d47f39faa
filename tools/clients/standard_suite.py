"""Run LangChain's standard suite with `ChatOpenAI` over `marith serve`, by pytest.

`MARITH_URL=… pytest standard_suite.py`
"""

from __future__ import annotations

import os
from typing import Any

from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestOverTheWire(ChatModelIntegrationTests):
    """Runs the suite of ChatMarith over HTTP, without what OpenAI's API cannot express."""

    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": "polite",
            "base_url": f"{os.environ['MARITH_URL']}/v1",
            "api_key": "sk-client-key",
            "temperature": 0,
            "stream_usage": True,
            "max_completion_tokens": 200,
        }

    @property
    def model_override_value(self) -> str:
        return "pocket"

    @property
    def has_tool_calling(self) -> bool:
        return True

    @property
    def has_tool_choice(self) -> bool:
        return True

    @property
    def has_structured_output(self) -> bool:
        return True

    @property
    def supports_json_mode(self) -> bool:
        return True
