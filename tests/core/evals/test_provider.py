"""marith as a model of Inspect AI: options, answers, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    GenerateConfig,
    Model,
    ResponseSchema,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import generate
from inspect_ai.tool import ToolCall, ToolFunction, ToolInfo, ToolParam, ToolParams
from inspect_ai.util import JSONSchema

from marith import Engine, Options, Request, RequestError, Sampling, Stop
from marith.errors import FormulaError
from marith.openai_format import to_tools

FORMAL = {"formal": "You are formal."}
WEATHER = ToolInfo(
    name="weather",
    description="What the weather is like.",
    parameters=ToolParams(properties={"city": ToolParam(type="string")}, required=["city"]),
)


def model(**arguments: Any) -> Model:
    return get_model("marith/pocket", memoize=False, **arguments)


def asked(text: str = "Tell me about bread.") -> list[Any]:
    return [ChatMessageUser(content=text)]


def test_a_task_runs_and_its_log_says_what_the_formula_did(tmp_path: Path) -> None:
    task = Task(
        [Sample(input="Hello!", id=i) for i in range(2)], solver=generate(), scorer=includes()
    )
    logs = [
        evaluate(task, formal, max_tokens=8, epochs=2, log_dir=str(tmp_path), display="none")[0]
        for formal in (model(formula="2*formal - M", terms=FORMAL) for _ in range(2))
    ]
    assert [log.status for log in logs] == ["success"] * 2
    texts = [[sample.output.completion for sample in log.samples or []] for log in logs]
    assert texts[0] == texts[1]  # a run repeats
    assert len(set(texts[0])) == 4  # samples and epochs differ
    output = (logs[0].samples or [])[0].output
    assert output.metadata is not None
    assert output.metadata["composition"]["formula"] == "2*formal - M"
    assert len(output.metadata["tokens"][0]) == output.usage.output_tokens == 8  # type: ignore[union-attr]
    assert output.stop_reason == "max_tokens"


async def test_an_answer_equals_the_answer_of_the_engine() -> None:
    settings = GenerateConfig(
        temperature=0.0, max_tokens=30, stop_seqs=["."], logprobs=True, top_logprobs=2
    )
    output = await model(formula="2*formal - M", terms=FORMAL).generate(asked(), config=settings)
    with Engine.load("pocket") as engine:
        answer = engine.submit(
            Request(
                "Tell me about bread.", "2*formal - M", FORMAL, Sampling(0), Stop(30, (".",),),
                logprobs=2,
            )
        ).result()  # fmt: skip
    assert (output.completion, output.stop_reason) == (answer.text, "stop")
    logprobs = output.choices[0].logprobs
    assert logprobs is not None
    assert answer.logprobs is not None
    assert [one.logprob for one in logprobs.content] == pytest.approx(
        [one.logprob for one in answer.logprobs], abs=1e-4
    )
    assert [len(one.top_logprobs or ()) for one in logprobs.content] == [2] * len(answer.logprobs)


async def test_several_choices_have_seeds_of_their_own() -> None:
    output = await model().generate(asked(), config=GenerateConfig(num_choices=3, max_tokens=12))
    assert len({choice.message.text for choice in output.choices}) == 3


async def test_a_prompt_of_several_choices_counts_once() -> None:
    used = []
    for count in (1, 3):
        config = GenerateConfig(num_choices=count, max_tokens=12)
        usage = (await model().generate(asked(), config=config)).usage
        assert usage is not None
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens + (
            usage.input_tokens_cache_read or 0
        )
        used.append(usage)
    prompts = [usage.total_tokens - usage.output_tokens for usage in used]
    assert prompts[0] == prompts[1]


async def test_an_answer_follows_its_schema() -> None:
    schema = JSONSchema(
        type="object", properties={"good": JSONSchema(type="boolean")}, required=["good"]
    )
    config = GenerateConfig(response_schema=ResponseSchema(name="answer", json_schema=schema))
    output = await model().generate(asked(), config=config)
    assert isinstance(json.loads(output.completion)["good"], bool)


async def test_a_tool_is_called_and_its_answer_is_read() -> None:
    chosen = ToolFunction("weather")
    config = GenerateConfig(max_tokens=60)
    output = await model().generate(asked(), [WEATHER], chosen, config)
    (call,) = output.message.tool_calls or []
    assert (call.function, output.stop_reason) == ("weather", "tool_calls")
    result = ChatMessageTool(content="Rain.", tool_call_id=call.id, function="weather")
    after = await model().generate([*asked(), output.message, result], [WEATHER], "none", config)
    assert not after.message.tool_calls


async def test_a_conversation_reaches_the_model_as_it_is() -> None:
    call = ToolCall(id="c1", function="weather", arguments={"city": "Rome"})
    conversation = [
        ChatMessageSystem(content="Be brief."),
        *asked("Rome?"),
        ChatMessageAssistant(content="", tool_calls=[call]),
        ChatMessageTool(content="Sun.", tool_call_id="c1", function="weather"),
    ]
    output = await model().generate(conversation, [WEATHER], config=GenerateConfig(max_tokens=1))
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
            ],
        },
        {"role": "tool", "content": "Sun.", "tool_call_id": "c1", "name": "weather"},
    ]  # fmt: skip
    definition = {"type": "function", "function": WEATHER.model_dump(exclude_none=True)}
    tools = to_tools([definition], list)
    answer = Options(model="pocket", max_tokens=1).submit(messages, tools=tools).result()
    used = output.usage
    assert used is not None
    read = used.input_tokens + (used.input_tokens_cache_read or 0)
    assert read == answer.usage.prompt_tokens


async def test_unsupported_options_are_refused() -> None:
    for config, problem in (
        (GenerateConfig(best_of=2), "marith has no best_of=2: leave best_of out"),
        (GenerateConfig(reasoning_effort="low"), "marith has no reasoning_effort='low'"),
        (GenerateConfig(temperature=-1.0), "temperature"),
    ):
        with pytest.raises(RequestError, match=problem):
            await model().generate(asked(), config=config)
    picture: list[Any] = [
        ChatMessageUser(content=[ContentImage(image="data:image/png;base64,AAAA")])
    ]
    with pytest.raises(RequestError, match="marith reads only text: remove the image"):
        await model().generate(picture)


def test_a_fault_in_the_model_is_found_before_anything_is_loaded() -> None:
    with pytest.raises(FormulaError, match="unknown term 'x'"):
        model(formula="2*x - M")
    with pytest.raises(RequestError, match="in this process, not at 'http://localhost'"):
        get_model("marith/pocket", base_url="http://localhost", memoize=False)
    with pytest.raises(RequestError, match="write -M file=PATH too"):
        model(persona="kind")


async def test_a_persona_of_a_file_answers(tmp_path: Path) -> None:
    file = tmp_path / "marith.toml"
    file.write_text('[terms]\nkind = "Be kind."\n[formulas]\nwarm = "2*kind - M"\n')
    output = await model(file=str(file), persona="warm").generate(
        asked(), config=GenerateConfig(max_tokens=2)
    )
    assert output.metadata is not None
    assert output.metadata["composition"]["formula"] == "2*kind - M"


async def test_a_prompt_beyond_the_context_says_so() -> None:
    output = await model().generate(asked("bread " * 9000))
    assert output.stop_reason == "model_length"


async def test_a_cancelled_call_frees_the_engine() -> None:
    api = model()
    engine = await api.api.engine()  # type: ignore[attr-defined]
    with anyio.move_on_after(1) as scope:
        await api.generate(
            asked(), config=GenerateConfig(max_tokens=4000, logit_bias={1: -100}, temperature=1)
        )
    assert scope.cancelled_caught
    with anyio.fail_after(20):
        while engine.status().running:
            await anyio.sleep(0.02)


async def test_tokens_are_counted_by_the_model() -> None:
    api = model().api
    text = "Tell me about bread."
    assert await api.count_tokens(text) == len((await api.engine()).encode(text))
