"""`MarithLLM`: a string asks and a string answers, a whole batch at once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler

import marith
from langchain_marith import MarithLLM

FORMULA = "2*a - 0.5*b"
TERMS = {"a": "a b c", "b": "x y z"}
PROMPTS = ["k l", "m n o", "p", "q r s t"]

Make = Callable[..., MarithLLM]


@pytest.fixture
def make(tiny_dir: str) -> Make:
    def made(**options: Any) -> MarithLLM:
        known = {"temperature": 0.9, "seed": 4, "max_tokens": 24}
        known |= {"model": tiny_dir, "formula": FORMULA, "terms": TERMS}
        return MarithLLM(**{**known, **options})

    return made


@pytest.fixture
def truths(tiny_dir: str) -> list[marith.Completion]:
    engine, sampling = marith.Engine.shared(tiny_dir), marith.Sampling(0.9, seed=4)
    return [engine.generate(p, FORMULA, TERMS, sampling, marith.Stop(24)) for p in PROMPTS]


async def test_every_way_to_ask_gives_the_engines_text(
    make: Make, truths: list[marith.Completion]
) -> None:
    model, texts = make(), [truth.text for truth in truths]
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
    make: Make, truths: list[marith.Completion]
) -> None:
    model, truth = make(), truths[0]
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
    make: Make, truths: list[marith.Completion], tiny_dir: str
) -> None:
    result = make().generate(PROMPTS)
    infos = [generation.generation_info or {} for (generation,) in result.generations]
    usages = [info["token_usage"] for info in infos]
    assert [u["total_tokens"] for u in usages] == [t.usage.total_tokens for t in truths]
    direct = make()._generate(PROMPTS).llm_output
    assert direct is not None
    assert direct["model_name"] == tiny_dir
    assert direct["token_usage"]["total_tokens"] == sum(t.usage.total_tokens for t in truths)


def test_stop_strings_are_joined_and_never_sent(make: Make) -> None:
    whole = make().invoke("k l")
    by_model, by_call = whole[4:6], whole[9:11]
    cut = whole[: min(whole.index(by_model), whole.index(by_call))]
    assert make(stop=[by_model]).invoke("k l", stop=[by_call]) == cut
    assert "".join(make(stop=[by_model]).stream("k l", stop=[by_call])) == cut


async def test_cached_answers_know_a_calls_options(make: Make) -> None:
    model = make(cache=InMemoryCache())
    first = model.invoke("k l")
    assert model.invoke("k l", formula="b") == make(formula="b").invoke("k l") != first
    assert await model.ainvoke("k l", temperature=0) == make(temperature=0).invoke("k l")
    assert model.invoke("k l") == first
    unseeded = make(cache=model.cache, seed=None)
    assert unseeded.invoke("k l") == unseeded.invoke("k l")


async def test_cached_answers_know_grammars_too(make: Make) -> None:
    model = make(cache=InMemoryCache())
    first = model.invoke("k l")
    for letter in "ab":
        grammar = marith.Grammar.regex(letter)
        assert model.invoke("k l", grammar=grammar) == letter
        assert await model.ainvoke("k l", grammar=grammar) == letter
        assert "".join(model.stream("k l", grammar=grammar)) == letter
    assert model.invoke("k l") == first


def test_a_batch_is_in_flight_together(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = make(), []
    model.invoke("k l")
    engine = model.engine()
    for prompts in (PROMPTS[:1], PROMPTS * 4):
        before = engine.status().steps
        assert len(model.batch(prompts)) == len(prompts)
        steps.append(engine.status().steps - before)
    assert steps[1] < 4 * steps[0]  # sixteen prompts, but not sixteen times the steps


def test_logprobs_and_formats_may_be_asked_for(make: Make, scripted: Callable[..., Any]) -> None:
    (generation,) = make().generate(["k l"], logprobs=2).generations[0]
    info = generation.generation_info or {}
    listed = info["logprobs"]["content"]
    assert "".join(each["token"] for each in listed).startswith(generation.text)
    assert all(len(each["top_logprobs"]) == 2 for each in listed)
    chat = scripted()
    model = MarithLLM(**chat.chosen())
    answer = model.invoke("Who sails?", response_format={"type": "json_object"})
    assert json.loads(answer) == {"name": "Ada", "age": 36}


def test_reasoning_is_kept_apart(scripted: Callable[..., Any], thinking_dir: str) -> None:
    model = MarithLLM(**scripted(model=thinking_dir).chosen())
    assert model.invoke("Hello!") == "Good day."
    (generation,) = model.generate(["Hello!"]).generations[0]
    assert (generation.generation_info or {})["reasoning_content"] == "A greeting."


def test_stop_strings_are_named(make: Make) -> None:
    whole = make().invoke("k l")
    (generation,) = make().generate(["k l"], stop=[whole[4:6]]).generations[0]
    assert (generation.generation_info or {})["stop_reason"] == whole[4:6]


def test_a_model_can_be_saved(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path / "model.json")
    saved = json.loads((tmp_path / "model.json").read_text())
    assert saved.pop("_type") == "marith"
    assert MarithLLM(**saved) == make()


def test_a_model_is_a_plain_value(make: Make) -> None:
    model = make()
    twin = pickle.loads(pickle.dumps(model))
    assert twin == model
    assert twin.invoke("k l") == model.invoke("k l")
