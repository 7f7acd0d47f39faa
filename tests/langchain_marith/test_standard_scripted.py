"""LangChain's own suite with everything switched on, over a script that any model could speak.

Templates, grammar, composition, cache and adapter are the real ones; only what the model wants to
say is written down. It wants no call on "Hello!": those that `tool_choice` forces are grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
)
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from transformers import AutoTokenizer

import marith
from langchain_marith import ChatMarith
from marith.scoring.weights.loader import locate
from marith.testing import save_scripted

JOKE = {"setup": "Why do cats avoid poker?", "punchline": "Too many cheetahs."}
WELL = "I am well, thank you, and how are you?"


def call(name: str, **arguments: Any) -> str:
    """A call of a tool, as the chat template writes it."""
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>{written}</tool_call>"


SCRIPT = [
    (r"It's sunny", "It is sunny in San Francisco."),
    (r"weather in San Francisco", call("get_weather", location="San Francisco, CA")),
    (r"magic_function\(3\)", call("magic_function", input=3)),
    (r"magic_function_no_args\(\)", call("magic_function_no_args")),
    (r"Pirate greeting", call("greeting_generator", answer_style="pirate")),
    (r"What is 3 \+ 4", call("my_adder_tool", a=3, b=4)),
    (r"Missing required argument 'b'", "I have to ask with both numbers."),
    (r'"result": 3', "1 + 2 is 3."),
    (
        r"你好啊集团",
        call("unicode_customer", customer_name="你好啊集团", description="A 技术 firm"),
    ),
    (
        r"こんにちは株式会社",
        call("unicode_customer", customer_name="こんにちは株式会社", description="日本の会社"),
    ),
    (r"great pick", "Purple it is."),
    (r'"JokeDict".*joke about cats', call("JokeDict", **JOKE)),
    (r'"Joke".*joke about cats', call("Joke", **JOKE)),
    (r"no punchline", json.dumps({"setup": JOKE["setup"]})),
    (r"joke about cats", json.dumps(JOKE)),
    (r"haikus", "An old silent pond:\na frog jumps into it. Splash!\nSilence, as before."),
    (r"think first", f"<think>They ask how I am.</think>{WELL}"),
    (r".", WELL),
]
OPTIONS: dict[str, Any] = {
    "model": "scripted",
    "formula": "M + 0.5*(formal - M) - 0.1*(rude - M)",
    "terms": {"formal": "You are formal.", "rude": "You are rude, and you shout."},
    "temperature": 0,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two models in one folder: one to speak, and one to take its place for a call."""
    folder = tmp_path_factory.mktemp("theatre")
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- A model that may begin with <think>its reasoning</think>. -#}"
    names = [save_scripted(folder / name, SCRIPT, tokenizer) for name in ("scripted", "understudy")]
    yield folder
    for name in names:
        marith.Engine.shared(name, device="cpu").close()


@pytest.fixture(autouse=True)
def _among_them(theatre: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(theatre)


class Scripted:
    """What both suites ask of the model: how it is made, and what it can do."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatMarith

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return OPTIONS

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "understudy"

    @property
    def supported_usage_metadata_details(self) -> dict[Literal["invoke", "stream"], list[Any]]:
        details = ["cache_read_input", "reasoning_output"]
        return {"invoke": details, "stream": details}


class TestUnit(Scripted, ChatModelUnitTests):
    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        """All that is standard, but for a key: a local model has none to show."""
        given = super().standard_chat_model_params
        return {name: value for name, value in given.items() if name != "api_key"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"MARITH_MODEL": "understudy"}, {}, {"model": "understudy"}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
class TestIntegration(Scripted, ChatModelIntegrationTests):
    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        """The second time, the prompt is known but for its last token."""
        question = "How are you, on this long and otherwise quite unremarkable morning?"
        answer = [self._ask(question, stream) for _ in range(2)][-1]
        usage = answer.usage_metadata
        assert usage is not None
        assert usage["input_token_details"]["cache_read"] == usage["input_tokens"] - 1
        return answer

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        """Reasoning is counted, and is no part of the text."""
        answer = self._ask("How are you? Please think first.", stream)
        assert answer.text == WELL
        assert answer.usage_metadata is not None
        assert answer.usage_metadata["output_token_details"]["reasoning"] > 0
        return answer

    def _ask(self, question: str, stream: bool) -> AIMessage:
        model = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return model.invoke(question)
        whole: AIMessageChunk | None = None
        for chunk in model.stream(question):
            assert isinstance(chunk, AIMessageChunk)
            whole = chunk if whole is None else whole + chunk
        assert whole is not None
        return whole


def test_nothing_that_a_text_model_can_do_is_switched_off() -> None:
    suite = TestIntegration()
    assert suite.has_tool_calling
    assert suite.has_tool_choice
    assert suite.has_structured_output
    assert suite.supports_json_mode
    assert suite.supports_model_override
    assert suite.returns_usage_metadata
