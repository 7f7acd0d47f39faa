"""`ChatMarith`: every way to ask gives the engine's own text, and nothing is lost on the way."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)
from langchain_core.output_parsers import StrOutputParser
from support.langchain_models import Make, engine_answer

import marith


async def test_every_way_to_ask_gives_the_engines_text(make: Make, tiny_dir: str) -> None:
    truth = engine_answer(tiny_dir, "k l").text
    model = make()
    assert len(truth) > 3
    assert model.invoke("k l").text == truth
    assert "".join(chunk.text for chunk in model.stream("k l")) == truth
    assert (await model.ainvoke("k l")).text == truth
    assert "".join([chunk.text async for chunk in model.astream("k l")]) == truth
    assert [m.text for m in model.batch(["k l", "k l"])] == [truth] * 2
    assert [m.text for m in await model.abatch(["k l", "k l"])] == [truth] * 2
    assert model.invoke("k l", stream=True).text == truth
    assert make(streaming=True).invoke("k l").text == truth


async def test_a_batch_answers_as_one_by_one(make: Make, tiny_dir: str) -> None:
    prompts = [" ".join("abcdefghijklmnopq"[i : i + 3]) for i in range(12)]
    far = marith.Sampling(temperature=0.9, seed=22)  # no number within 1e-4 of another token
    truths = [engine_answer(tiny_dir, prompt, sampling=far).text for prompt in prompts]
    model = make(seed=far.seed)
    assert [m.text for m in model.batch(prompts)] == truths
    assert [m.text for m in await model.abatch(prompts)] == truths
    assert (model | StrOutputParser()).batch(prompts) == truths
    by_two = model.batch(prompts, {"max_concurrency": 2})
    assert [m.text for m in by_two] == truths
    assert len(set(truths)) > 4


def test_a_batch_is_in_flight_together(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model, everyone = make(), threading.Barrier(9, timeout=30)
    submit = marith.Options.submit

    def waiting(*args: Any, **asked: Any) -> marith.Ticket:
        everyone.wait()  # breaks unless all nine are asked at once
        return submit(*args, **asked)

    monkeypatch.setattr(marith.Options, "submit", waiting)
    assert len(model.batch(["k l"] * 9)) == 9
    assert model.batch([]) == []


def test_one_bad_prompt_of_a_batch_harms_no_other(make: Make) -> None:
    good, bad = make().batch(["k l", "k " * 1200], return_exceptions=True)
    assert good.text == make().invoke("k l").text
    assert isinstance(bad, marith.ContextOverflow)
    with pytest.raises(marith.ContextOverflow):
        make().batch(["k l", "k " * 1200])


def test_stop_strings_are_joined_and_never_sent(make: Make) -> None:
    whole = make().invoke("k l").text
    by_model, by_call = whole[4:6], whole[9:11]
    model = make(stop=[by_model])
    answer = model.invoke("k l", stop=[by_call])
    cut = min(whole.index(by_model), whole.index(by_call))
    assert answer.text == whole[:cut]
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.response_metadata["stop_reason"] in (by_model, by_call)
    assert "".join(c.text for c in model.stream("k l", stop=[by_call])) == whole[:cut]
    only_call = make(stop=["§"]).invoke("k l", stop=[by_call])
    assert only_call.text == whole[: whole.index(by_call)]


def test_making_a_model_loads_nothing() -> None:
    script = (
        "import sys; from langchain_marith import ChatMarith, MarithLLM\n"
        "model = ChatMarith(formula='2*a - M', terms={'a': 'A chef.'})\n"
        "MarithLLM(model='/nowhere')\n"
        "model.bind(stop=['.']).with_config(tags=['x'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_no_messages_have_no_tokens_and_a_conversation_is_trimmed_within_a_message(
    make: Make,
) -> None:
    model = make()
    assert model.get_num_tokens_from_messages([]) == 0
    talk = [SystemMessage("s"), HumanMessage("a b c\nd e f\ng h i"), AIMessage("k l m\nn o p")]
    most = model.get_num_tokens_from_messages(talk) - 5
    for keeps in ("first", "last"):
        kept = trim_messages(
            talk, max_tokens=most, token_counter=model, strategy=keeps, allow_partial=True
        )
        assert 0 < model.get_num_tokens_from_messages(kept) <= most
    assert trim_messages(talk, max_tokens=0, token_counter=model, allow_partial=True) == []
