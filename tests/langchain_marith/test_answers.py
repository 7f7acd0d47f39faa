"""The metadata of an answer is exact: tokens, ends, log-probabilities, and costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.langchain_models import FORMULA, MAP, STYLE, Make, clock, engine_answer

import marith


def _logprobs(answer: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = answer.response_metadata["logprobs"]["content"]
    return listed


def test_usage_is_what_the_tokenizer_counts(make: Make, tiny_dir: str) -> None:
    truth = engine_answer(tiny_dir, "k l")
    answer = make().invoke("k l")
    usage = answer.usage_metadata
    assert usage is not None
    assert usage["input_tokens"] == make().get_num_tokens("user : k l assistant :")
    assert usage["input_tokens"] == truth.usage.prompt_tokens
    assert usage["output_tokens"] == len(truth.tokens)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_token_details"] == {"reasoning": 0}


def test_an_answer_names_its_model_and_why_it_ended(make: Make, tiny_dir: str) -> None:
    truth = engine_answer(tiny_dir, "k l")
    metadata = make().invoke("k l").response_metadata
    assert (metadata["model_name"], metadata["model_provider"]) == (tiny_dir, "marith")
    assert metadata["finish_reason"] == truth.finish_reason
    assert make(max_tokens=3).invoke("k l").response_metadata["finish_reason"] == "length"
    assert "stop_reason" not in metadata


def test_the_cost_of_the_formula_is_listed_by_term(scripted: Make) -> None:
    model = scripted()
    answer = model.invoke("Count!")
    costs = answer.response_metadata["composition"]
    tokens = (answer.usage_metadata or {})["output_tokens"]
    assert costs["formula"] == STYLE["formula"]
    assert set(costs) == {
        "formula", "passes", "calls", "judgements", "seconds", "drafted", "accepted",
        "implausible", "uncut", "paused", "terms", "stages",
    }  # fmt: skip
    assert 0 < costs["passes"] <= costs["calls"]
    assert costs["seconds"] > 0
    assert len(costs["terms"]) == 2
    bare, plain = costs["terms"].values()
    assert bare["prompt_tokens"] == (answer.usage_metadata or {})["input_tokens"]
    assert plain["prompt_tokens"] > bare["prompt_tokens"]
    assert 0 <= bare["cached_tokens"] <= bare["prompt_tokens"]
    assert bare["calls"] <= tokens + 1
    json.dumps(answer.response_metadata)


async def test_logprobs_are_those_of_the_composed_distribution(make: Make, tiny_dir: str) -> None:
    engine, terms = marith.Engine.shared(tiny_dir), make().terms
    truth = engine_answer(tiny_dir, "k l")
    scores = engine.score("k l", truth.tokens, FORMULA, terms)
    model = make(temperature=0.9).bind(logprobs=True, top_logprobs=2)
    answers = [model.invoke("k l"), await model.ainvoke("k l")]
    for answer in answers:
        listed = _logprobs(answer)
        assert [each["logprob"] for each in listed[: len(scores)]] == pytest.approx(
            scores, abs=1e-4
        )
        assert "".join(each["token"] for each in listed).startswith(answer.text)
        assert all(bytes(each["bytes"]).decode() == each["token"] for each in listed)
        for each in listed:
            first, second = each["top_logprobs"]
            assert first["logprob"] >= second["logprob"]
            assert first["logprob"] >= each["logprob"] - 1e-6
    by_term = answers[0].response_metadata["composition"]["logprobs"]
    a, b = (engine.score("k l", truth.tokens, name, terms) for name in ("a", "b"))
    first, second = by_term.values()
    assert first[: len(a)] == pytest.approx(a, abs=1e-4)
    assert second[: len(b)] == pytest.approx(b, abs=1e-4)


def test_tokens_of_messages_and_tools_are_counted(scripted: Make) -> None:
    model = scripted()
    conversation = [("system", "Be brief."), ("human", "What time is it?")]
    messages = model._convert_input(conversation).to_messages()
    counted = model.get_num_tokens_from_messages(messages)
    assert counted == (model.invoke(conversation).usage_metadata or {})["input_tokens"]
    with_tools = model.get_num_tokens_from_messages(messages, tools=[clock, MAP])
    answer = model.bind_tools([clock, MAP], tool_choice="auto").invoke(conversation)
    assert with_tools == (answer.usage_metadata or {})["input_tokens"] > counted
    assert model.get_num_tokens("Be brief.") == len(model.get_token_ids("Be brief.")) > 1
    assert model.get_num_tokens("") == 0


def test_an_inspected_answer_says_why_each_token_is_there(make: Make) -> None:
    plain = make().invoke("k l")
    model = make(inspect=2)
    answer, whole = model.invoke("k l"), None
    for chunk in model.stream("k l"):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    assert "inspection" not in plain.response_metadata
    for metadata in (answer.response_metadata, whole.response_metadata):
        inspection = marith.Inspection.from_json(json.dumps(metadata["inspection"]))
        assert inspection.text == plain.text
        assert [len(position.top) for position in inspection.positions] == [2] * len(
            inspection.positions
        )
    assert len(make().invoke("k l", inspect=True).response_metadata["inspection"]["positions"]) > 3
