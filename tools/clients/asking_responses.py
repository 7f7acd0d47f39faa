"""What clients of `/v1/responses` get of a server, and all that `asking.py` asks before.

`python asking_responses.py URL` prints a line for each check and ends with 1 where one fails.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from asking import CHAT, KEY, MODEL, SCHEMA, URL, WEATHER, check, main, sdk

SAID = CHAT[0]["content"]
TOOL = {"type": "function", **WEATHER["function"], "strict": True}
ASKED: dict[str, Any] = {"model": MODEL, "input": SAID, "max_output_tokens": 24}
CALLED: dict[str, Any] = {"model": MODEL, "input": SAID, "tools": [TOOL]}
LOGPROBS = "message.output_text.logprobs"
SEED = {"seed": 3}


def strictly(kind: Any, value: Any) -> None:
    """Hold a value to the SDK's own type of it: the SDK itself takes any value as it is."""
    from pydantic import TypeAdapter

    TypeAdapter(kind).validate_python(value.to_dict(), strict=True)


@check
def openai_responses_answer_whole_and_streamed() -> None:
    from openai.types.responses import Response, ResponseStreamEvent

    whole = sdk().responses.create(**ASKED, extra_body=SEED, metadata={"of": "me"})
    strictly(Response, whole)
    assert whole.output_text
    assert whole.metadata == {"of": "me"}
    events = [*sdk().responses.create(**ASKED, extra_body=SEED, stream=True)]
    for event in events:
        strictly(ResponseStreamEvent, event)
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == whole.output_text == events[-1].response.output_text
    assert events[-1].response.usage.total_tokens == whole.usage.total_tokens
    assert whole._request_id


@check
def openai_responses_accumulate_a_stream() -> None:
    asked = {**ASKED, "max_output_tokens": 400}
    whole = sdk().responses.create(**asked, extra_body=SEED)
    with sdk().responses.stream(**asked, extra_body=SEED) as stream:
        snapshots = [event.snapshot for event in stream if event.type.endswith("text.delta")]
        final = stream.get_final_response()
    assert final.status == "completed"
    assert snapshots[-1] == final.output_text == whole.output_text


@check
def openai_responses_have_logprobs_and_extra_fields() -> None:
    told = sdk().responses.create(
        **ASKED,
        include=[LOGPROBS],
        top_logprobs=2,
        extra_body={"marith": {"composition": True, "ban": ["the"]}, "top_k": 40},
    )
    [part] = told.output[0].content
    assert all(len(token.top_logprobs) == 2 for token in part.logprobs)
    assert told.marith["composition"]


@check
def openai_responses_call_tools_and_read_results() -> None:
    asked = {**CALLED, "tool_choice": "required", "extra_body": SEED}
    whole = sdk().responses.create(**asked)
    [call] = whole.output
    with sdk().responses.stream(**asked) as stream:
        pieces = [event.delta for event in stream if event.type.endswith("arguments.delta")]
        [streamed] = stream.get_final_response().output
    assert "".join(pieces) == streamed.arguments == call.arguments
    assert set(streamed.parsed_arguments) == {"city"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}
    history = [{"role": "user", "content": SAID}, *whole.output, result]
    told = sdk().responses.create(**{**CALLED, "input": history}, max_output_tokens=8)
    assert told.output


@check
def openai_responses_parse_classes_and_schemas() -> None:
    from pydantic import BaseModel

    class Answer(BaseModel):
        yes: bool

    parsed = sdk().responses.parse(model=MODEL, input=SAID, text_format=Answer).output_parsed
    assert isinstance(parsed, Answer)
    with sdk().responses.stream(model=MODEL, input=SAID, text_format=Answer) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Answer)
    text = {"format": {"type": "json_schema", **SCHEMA}}
    told = sdk().responses.create(model=MODEL, input=SAID, text=text)
    assert set(json.loads(told.output_text)) == {"yes"}


@check
def openai_responses_read_refusals() -> None:
    import openai

    for asked in ({"previous_response_id": "resp_1"}, {"tools": [{"type": "web_search"}]}):
        try:
            sdk().responses.create(**{**ASKED, **asked})
        except openai.BadRequestError as told:
            assert told.param == next(iter(asked))
        else:
            raise AssertionError(f"{asked} was taken")


def chat_openai(**given: Any) -> Any:
    """LangChain's model of a server that answers `/v1/responses`; its own `seed` is of chats."""
    from langchain_openai import ChatOpenAI

    asked = {"base_url": f"{URL}/v1", "api_key": KEY, "model": MODEL, "extra_body": SEED}
    return ChatOpenAI(use_responses_api=True, **{**asked, **given})


@check
def chat_openai_responses_answer_stream_and_count() -> None:
    model = chat_openai(max_completion_tokens=12)
    whole = model.invoke("Hello!")
    chunks = [*model.stream("Hello!")]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.usage_metadata["total_tokens"] > 0
    assert [chunk for chunk in chunks if chunk.usage_metadata]
    history = [("human", "Hello!"), whole, ("human", "And then?")]
    assert model.invoke(history).text


@check
def chat_openai_responses_structure_and_call() -> None:
    from pydantic import BaseModel, Field

    class Weather(BaseModel):
        """The weather of a city."""

        city: str = Field(max_length=12)

    model = chat_openai()
    told = model.with_structured_output(Weather).invoke("What is the weather in Rome?")
    assert isinstance(told, Weather)
    asked = model.bind_tools([Weather], tool_choice="any")
    called = asked.invoke("Rome?")
    assert called.tool_calls[0]["name"] == "Weather"
    chunks = [*asked.stream("Rome?")]
    streamed = chunks[0]
    for chunk in chunks[1:]:
        streamed += chunk
    assert streamed.tool_calls[0]["args"].keys() == {"city"}
    result = {"role": "tool", "tool_call_id": called.tool_calls[0]["id"], "content": "It rains."}
    short = chat_openai(max_completion_tokens=8)
    assert isinstance(short.invoke([("human", "Rome?"), called, result]).text, str)


@check
def openapi_spec_validator_takes_the_document() -> None:
    import httpx
    from openapi_spec_validator import validate

    told = httpx.get(f"{URL}/openapi.json", headers={"authorization": f"Bearer {KEY}"}).json()
    validate(told)
    assert "/v1/responses" in told["paths"]


if __name__ == "__main__":
    assert URL, "python asking_responses.py URL"
    sys.exit(main())
