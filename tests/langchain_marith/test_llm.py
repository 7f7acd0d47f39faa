"""`MarithLLM`: a string asks and a string answers, a whole batch at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from support.langchain_models import Make, Writer, engine_answer, sum_of

import marith
from langchain_marith import MarithLLM

PROMPTS = ["k l", "m n o", "p", "q r s t"]


@pytest.fixture
def truths(tiny_dir: str) -> list[marith.Completion]:
    return [engine_answer(tiny_dir, prompt) for prompt in PROMPTS]


async def test_every_way_to_ask_gives_the_engines_text(
    writer: Writer, truths: list[marith.Completion]
) -> None:
    model, texts = writer(), [truth.text for truth in truths]
    assert [model.invoke(p) for p in PROMPTS] == texts
    assert [await model.ainvoke(p) for p in PROMPTS] == texts
    assert model.batch(PROMPTS) == texts
    assert await model.abatch(PROMPTS) == texts
    assert ["".join(model.stream(p)) for p in PROMPTS] == texts
    assert ["".join([c async for c in model.astream(p)]) for p in PROMPTS] == texts


class Listener(BaseCallbackHandler):
    """Writes down the tokens and the results."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.results: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.heard.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.results.append(response)


async def test_a_stream_announces_each_token_once(
    writer: Writer, truths: list[marith.Completion]
) -> None:
    model, truth = writer(), truths[0]
    for awaited in (False, True):
        listener = Listener()
        config = {"callbacks": [listener]}
        if awaited:
            [text async for text in model.astream("k l", config=config)]
        else:
            list(model.stream("k l", config=config))
        assert "".join(listener.heard) == truth.text
        (generation,) = listener.results[0].generations[0]
        assert generation.generation_info["finish_reason"] == truth.finish_reason
        assert generation.generation_info["token_usage"]["completion_tokens"] == len(truth.tokens)


def test_usage_of_a_batch_adds_up(
    writer: Writer, truths: list[marith.Completion], tiny_dir: str
) -> None:
    result = writer().generate(PROMPTS)
    infos = [generation.generation_info or {} for (generation,) in result.generations]
    usages = [info["token_usage"] for info in infos]
    assert [u["total_tokens"] for u in usages] == [t.usage.total_tokens for t in truths]
    direct = writer()._generate(PROMPTS).llm_output
    assert direct is not None
    assert direct["model_name"] == tiny_dir
    assert direct["token_usage"]["total_tokens"] == sum(t.usage.total_tokens for t in truths)


async def test_a_prompt_of_several_answers_counts_once(
    writer: Writer, truths: list[marith.Completion]
) -> None:
    prompts = sum(truth.usage.prompt_tokens for truth in truths)
    model = writer(n=3)
    for result in (model.generate(PROMPTS), await model.agenerate(PROMPTS)):
        assert len(result.generations[0]) == 3
        usage = (result.llm_output or {})["token_usage"]
        assert usage["prompt_tokens"] == prompts
        infos = [each.generation_info or {} for row in result.generations for each in row]
        answers = sum(info["token_usage"]["completion_tokens"] for info in infos)
        assert usage["completion_tokens"] == answers
        assert usage["total_tokens"] == prompts + answers


async def test_cached_answers_know_a_calls_options(writer: Writer) -> None:
    model = writer(cache=InMemoryCache())
    first = model.invoke("k l")
    assert model.invoke("k l", formula="b") == writer(formula="b").invoke("k l") != first
    assert await model.ainvoke("k l", temperature=0) == writer(temperature=0).invoke("k l")
    assert model.invoke("k l") == first
    unseeded = writer(cache=model.cache, seed=None)
    assert unseeded.invoke("k l") == unseeded.invoke("k l")


def test_a_batch_is_in_flight_together(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = writer(), []
    model.invoke("k l")
    engine = model.engine()
    for prompts in (PROMPTS[:1], PROMPTS * 4):
        before = engine.status().steps
        assert len(model.batch(prompts)) == len(prompts)
        steps.append(engine.status().steps - before)
    assert steps[1] < 4 * steps[0]  # sixteen prompts, but not sixteen times the steps


async def test_one_bad_prompt_of_a_batch_harms_no_other(writer: Writer) -> None:
    model, prompts = writer(), ["k l", "k " * 1200, "k l"]
    whole = model.invoke("k l")
    for good, bad, other in (
        model.batch(prompts, return_exceptions=True),
        model.batch(prompts, {"max_concurrency": 2}, return_exceptions=True),
        await model.abatch(prompts, return_exceptions=True),
    ):
        assert good == other == whole
        assert isinstance(bad, marith.ContextOverflow)
    with pytest.raises(marith.ContextOverflow):
        model.batch(prompts)
    assert model.batch([]) == []


def test_logprobs_and_formats_may_be_asked_for(writer: Writer, scripted: Make) -> None:
    (generation,) = writer().generate(["k l"], logprobs=2).generations[0]
    info = generation.generation_info or {}
    listed = info["logprobs"]["content"]
    assert "".join(each["token"] for each in listed).startswith(generation.text)
    assert all(len(each["top_logprobs"]) == 2 for each in listed)
    chat = scripted()
    model = MarithLLM(**chat.chosen())
    answer = model.invoke("Who sails?", response_format={"type": "json_object"})
    assert json.loads(answer) == {"name": "Ada", "age": 36}


def test_reasoning_is_kept_apart(scripted: Make, thinking_dir: str) -> None:
    model = MarithLLM(**scripted(model=thinking_dir).chosen())
    assert model.invoke("Hello!") == "Good day."
    (generation,) = model.generate(["Hello!"]).generations[0]
    assert (generation.generation_info or {})["reasoning_content"] == "A greeting."


@pytest.mark.parametrize("most", [0, 1])
def test_reasoning_is_limited(scripted: Make, thinking_dir: str, most: int) -> None:
    model = scripted(
        model=thinking_dir, max_reasoning_tokens=most, steer_reasoning=False, steer_tools=False
    )
    answers = model.invoke("Hello!"), sum_of(model.stream("Hello!"))
    thoughts = [answer.additional_kwargs.get("reasoning_content", "") for answer in answers]
    assert thoughts[0] == thoughts[1]
    assert "A greeting.".startswith(thoughts[0])
    assert bool(thoughts[0]) == bool(most)
    assert len(thoughts[0]) < len("A greeting.")
    assert model.invoke("Hello!", max_reasoning_tokens=None).text == "Good day."


def test_stop_strings_are_named(writer: Writer) -> None:
    whole = writer().invoke("k l")
    (generation,) = writer().generate(["k l"], stop=[whole[4:6]]).generations[0]
    assert (generation.generation_info or {})["stop_reason"] == whole[4:6]


def test_a_model_can_be_saved(writer: Writer, tmp_path: Path) -> None:
    writer().save(tmp_path / "model.json")
    saved = json.loads((tmp_path / "model.json").read_text())
    assert saved.pop("_type") == "marith"
    assert MarithLLM(**saved) == writer()
