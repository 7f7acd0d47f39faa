"""Check a server with other clients, in an environment that has them, but not marith.

`python asking.py URL [CLIENT]` prints a line for each check, of all clients or of one, and exits
with 1 if one fails.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

CHAT = [{"role": "user", "content": "Tell me of your day."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}
SCHEMA = {
    "name": "answer",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"yes": {"type": "boolean"}},
        "required": ["yes"],
        "additionalProperties": False,
    },
}
URL = sys.argv[1] if len(sys.argv) > 1 else ""
MODEL, KEY = "polite", "sk-client-key"
CHECKS: list[Callable[[], None]] = []


def check(work: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(work)
    return work


def sdk() -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{URL}/v1", api_key=KEY)


@check
def openai_answers_whole_and_streamed() -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": CHAT, "seed": 3, "max_tokens": 24}
    whole = sdk().chat.completions.create(**asked)
    chunks = [
        *sdk().chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    ]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert whole._request_id


@check
def openai_logprobs_choices_and_extra_body() -> None:
    told = sdk().chat.completions.create(
        model=MODEL,
        messages=CHAT,
        n=3,
        seed=1,
        max_tokens=6,
        logprobs=True,
        top_logprobs=2,
        extra_body={"marith": {"composition": True, "ban": ["the"]}, "top_k": 40},
    )
    assert [choice.index for choice in told.choices] == [0, 1, 2]
    assert len(told.choices[0].logprobs.content[0].top_logprobs) == 2
    assert told.marith["composition"]


@check
def openai_calls_tools() -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": CHAT,
        "tools": [WEATHER],
        "tool_choice": "required",
        "seed": 2,
    }
    whole = sdk().chat.completions.create(**asked).choices[0]
    [call] = whole.message.tool_calls
    json.loads(call.function.arguments)
    assert whole.finish_reason == "tool_calls"
    arguments = ""
    for chunk in sdk().chat.completions.create(**asked, stream=True):
        for delta in chunk.choices[0].delta.tool_calls or ():
            arguments += delta.function.arguments or ""
    assert arguments == call.function.arguments


@check
def openai_parses_schemas() -> None:
    told = sdk().chat.completions.create(
        model=MODEL, messages=CHAT, response_format={"type": "json_schema", "json_schema": SCHEMA}
    )
    assert set(json.loads(told.choices[0].message.content)) == {"yes"}


@check
def openai_continues_texts_and_lists_models() -> None:
    told = sdk().completions.create(
        model="pocket", prompt="The sea is", max_tokens=5, logprobs=1, echo=True
    )
    assert told.choices[0].text.startswith("The sea is")
    assert MODEL in [model.id for model in sdk().models.list()]
    assert sdk().models.retrieve(MODEL).id == MODEL


@check
def openai_reads_errors() -> None:
    import openai

    for error, asked in (
        (openai.BadRequestError, {"temperature": -1}),
        (openai.NotFoundError, {"model": "gpt-none"}),
    ):
        try:
            sdk().chat.completions.create(**{"model": MODEL, "messages": CHAT, **asked})
        except error as told:
            assert told.body["message"]
        else:
            raise AssertionError(f"no {error.__name__}")
    try:
        openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong-key-here").models.list()
    except openai.AuthenticationError:
        return
    raise AssertionError("a wrong key opened")


def chat_openai(**given: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=f"{URL}/v1", api_key=KEY, model=MODEL, seed=1, **given)


@check
def chat_openai_answers_streams_and_counts() -> None:
    model = chat_openai(max_completion_tokens=12, stream_usage=True)
    whole = model.invoke("Hello!")
    chunks = [*model.stream("Hello!")]
    assert "".join(str(chunk.content) for chunk in chunks) == whole.content
    assert whole.usage_metadata["total_tokens"] > 0
    assert chunks[-1].usage_metadata or chunks[-2].usage_metadata


@check
def chat_openai_gives_structured_answers_and_calls() -> None:
    from pydantic import BaseModel, Field

    class Weather(BaseModel):
        """The weather of a city."""

        city: str = Field(max_length=12)

    told = chat_openai().with_structured_output(Weather).invoke("What is the weather in Rome?")
    assert isinstance(told, Weather)
    called = chat_openai().bind_tools([Weather], tool_choice="any").invoke("Rome?")
    assert called.tool_calls[0]["name"] == "Weather"
    history = [
        ("human", "Rome?"),
        called,
        {"role": "tool", "tool_call_id": called.tool_calls[0]["id"], "content": "It rains."},
    ]
    assert isinstance(chat_openai(max_completion_tokens=8).invoke(history).content, str)


@check
def chat_openai_by_its_profile_answers_agents_in_objects() -> None:
    from langchain.agents import create_agent
    from pydantic import BaseModel, Field

    class Weather(BaseModel):
        """The weather of a city."""

        city: str = Field(max_length=12)

    # Without the profile, LangChain asks for a call of a tool in place of a JSON schema.
    for profile, calls_tool in (({"structured_output": True}, False), ({}, True)):
        agent = create_agent(chat_openai(profile=profile), response_format=Weather)
        state = agent.invoke({"messages": [("human", "What is the weather in Rome?")]})
        assert isinstance(state["structured_response"], Weather)
        assert bool(state["messages"][1].tool_calls) == calls_tool


@check
def chat_openai_by_its_profile_sums_up_what_nears_the_context() -> None:
    import httpx
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    keyed = {"authorization": f"Bearer {KEY}"}
    context = httpx.get(f"{URL}/v1/models/{MODEL}", headers=keyed).json()["max_model_len"]
    model = chat_openai(max_completion_tokens=16, profile={"max_input_tokens": context})
    # LangChain's own prompt for summaries nearly fills the context of pocket.
    sums_up = SummarizationMiddleware(
        model,
        trigger=("fraction", 0.5),
        keep=("messages", 1),
        summary_prompt="Sum up: {messages}",
    )
    agent = create_agent(model, middleware=[sums_up])
    for sentences, kept in ((2, 5), (20, 2)):
        history = [
            (role, "The sea is wide and blue. " * sentences)
            for role in ("human", "ai", "human", "ai", "human")
        ]
        messages = agent.invoke({"messages": history})["messages"]
        assert len(messages) == kept + 1
        assert ("summary" in messages[0].text) == (kept == 2)


@check
def litellm_answers_and_streams() -> None:
    import litellm

    asked: dict[str, Any] = {
        "model": f"openai/{MODEL}",
        "api_base": f"{URL}/v1",
        "api_key": KEY,
        "messages": CHAT,
        "max_tokens": 10,
        "seed": 1,
    }
    whole = litellm.completion(**asked).choices[0].message.content
    chunks = litellm.completion(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole


@check
def openapi_spec_validator_takes_the_document() -> None:
    import httpx
    from openapi_spec_validator import validate

    told = httpx.get(f"{URL}/openapi.json", headers={"authorization": f"Bearer {KEY}"}).json()
    validate(told)
    assert "/v1/chat/completions" in told["paths"]


def main() -> int:
    failed, client = 0, sys.argv[2] if len(sys.argv) > 2 else ""
    checks = [work for work in CHECKS if work.__name__.startswith(client)]
    for work in checks:
        try:
            work()
        except Exception:
            failed += 1
            print(f"failed  {work.__name__}")
            traceback.print_exc()
        else:
            print(f"ok      {work.__name__}")
    print(f"{len(checks) - failed} of {len(checks)}")
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
