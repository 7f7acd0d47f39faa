"""`Marith`: every way to ask gives the engine's own text, and LlamaIndex's own fields hold."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex
from llama_index.core.llms import LLM, ChatMessage, CustomLLM, LLMMetadata, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate
from llama_index.core.types import BaseOutputParser
from support.llamaindex_calls import CHATS, COMPLETIONS, WAYS, Make, ask, text_of

import marith
from llamaindex_marith import Marith

FORMULA = "2*a - 0.5*b"
TERMS = {"a": "a b c", "b": "x y z"}
SEED = 5
USER = [ChatMessage(role=MessageRole.USER, content="k l")]


def by_engine(model: str, prompt: Any, **options: Any) -> marith.Completion:
    asked = {"formula": FORMULA, "terms": TERMS, **options}
    sampling = marith.Sampling(temperature=0.9, seed=SEED)
    return marith.Engine.shared(model).generate(
        prompt, **asked, sampling=sampling, stop=marith.Stop(24)
    )


async def test_every_way_to_ask_gives_the_engines_text(make: Make, tiny_dir: str) -> None:
    truth = by_engine(tiny_dir, "k l")
    assert len(truth.text) > 12
    for way in WAYS:
        answers = await ask(make(), way)
        last = answers[-1]
        assert text_of(last) == truth.text, way
        assert type(last).model_validate_json(last.model_dump_json()) == last
        assert all(a.message.role == MessageRole.ASSISTANT for a in answers if way in CHATS)
        assert last.raw["finish_reason"] == truth.finish_reason
        assert last.raw["usage"]["prompt_tokens"] == truth.usage.prompt_tokens
        assert last.raw["usage"]["completion_tokens"] == len(truth.tokens)
        assert last.raw["model"] == tiny_dir
        assert json.loads(json.dumps(last.raw)) == last.raw
        assert last.additional_kwargs["total_tokens"] == truth.usage.total_tokens
        if "stream" in way:
            assert len(answers) > 3, way
            assert "".join(a.delta for a in answers) == truth.text, way
            assert all(
                text_of(later) == text_of(sooner) + later.delta
                for sooner, later in pairwise(answers)
            )
            assert all(a.raw is None for a in answers[:-1])


@pytest.mark.parametrize("way", WAYS)
async def test_a_calls_options_win_and_unknown_ones_are_refused(
    make: Make, tiny_dir: str, way: str
) -> None:
    question: Any = "k l" if way in COMPLETIONS else list(USER)
    whole = by_engine(tiny_dir, "k l").text
    model = make(stop=[whole[15:17]])
    answers = await ask(model, way, question, stop=[whole[6:8]])
    assert text_of(answers[-1]) == whole[: min(whole.index(whole[6:8]), whole.index(whole[15:17]))]
    model, drawn = make(temperature=3.0, seed=1), {"temperature": 0.9, "seed": SEED}
    before = text_of((await ask(model, way, question))[-1])
    assert before != whole
    assert text_of((await ask(model, way, question, **drawn))[-1]) == whole
    assert text_of((await ask(model, way, question))[-1]) == before
    other = await ask(make(), way, question, formula="b", max_tokens=5)
    assert other[-1].raw["usage"]["completion_tokens"] <= 5
    assert by_engine(tiny_dir, "k l", formula="b").text.startswith(text_of(other[-1]))
    with pytest.raises(ValueError, match="Marith takes no option 'temprature'"):
        await ask(model, way, question, temprature=0)
    assert question in ("k l", USER)


@pytest.mark.parametrize("way", COMPLETIONS)
async def test_system_prompt_and_wrapper_reach_every_completion(
    make: Make, tiny_dir: str, way: str
) -> None:
    model = make(system_prompt="s t", completion_to_prompt=lambda prompt: f"{prompt} w")
    truth = by_engine(
        tiny_dir, [{"role": "system", "content": "s t"}, {"role": "user", "content": "k l w"}]
    )
    assert text_of((await ask(model, way, "k l"))[-1]) == truth.text
    formatted = await ask(model, way, "k l", formatted=True)
    assert text_of(formatted[-1]) == by_engine(tiny_dir, "k l").text


@pytest.mark.parametrize("way", CHATS)
async def test_messages_are_read_as_their_wrapper_writes_them(
    make: Make, tiny_dir: str, way: str
) -> None:
    model = make(messages_to_prompt=lambda messages: f"{messages[-1].content} w")
    assert text_of((await ask(model, way, USER))[-1]) == by_engine(tiny_dir, "k l w").text


@pytest.mark.parametrize("way", ["predict", "stream", "apredict", "astream"])
async def test_the_system_prompt_is_read_once_with_a_template(
    make: Make, tiny_dir: str, way: str
) -> None:
    async def answer(model: Marith, template: Any, **options: Any) -> str:
        said = getattr(model, way)(template, **options)
        said = await said if way.startswith("a") else said
        return "".join([part async for part in said] if way == "astream" else said)

    messages = [{"role": "system", "content": "s t"}, {"role": "user", "content": "k l"}]
    truth = by_engine(tiny_dir, messages).text
    assert await answer(make(system_prompt="s t"), PromptTemplate("k {x}"), x="l") == truth
    template = ChatPromptTemplate([ChatMessage(role="system", content="s t"), *USER])
    assert await answer(make(), template) == truth
    if "predict" in way:
        assert await answer(make(output_parser=Shouting()), template) == truth.upper()


class Shouting(BaseOutputParser):
    """Writes answers in capitals."""

    def parse(self, output: str) -> str:
        return output.upper()


@pytest.mark.parametrize("mode", ["refine", "tree_summarize"])
async def test_a_query_is_answered_from_documents(make: Make, mode: str) -> None:
    index = SummaryIndex.from_documents([Document(text="a b c d"), Document(text="e f g")])

    def engine(streaming: bool = False, **options: Any) -> Any:
        model = make(max_tokens=12, **options)
        return index.as_query_engine(llm=model, response_mode=mode, streaming=streaming)

    plain = str(engine().query("k l"))
    assert plain
    assert str(await engine().aquery("k l")) == plain
    assert str(engine(formula="b").query("k l")) != plain
    streamed, astreamed = engine(True).query("k l"), await engine(True).aquery("k l")
    assert "".join(streamed.response_gen) == plain
    assert "".join([part async for part in astreamed.async_response_gen()]) == plain


def test_a_model_is_a_plain_value(make: Make) -> None:
    formula = 2 * marith.Prompted("a b c") - 0.5 * marith.Prompted("x y z")
    grammar = marith.Grammar.regex("[xyz]{4}")
    model = make(formula=formula, grammar=grammar)
    truth = make(grammar=grammar).complete("k l").text
    assert len(truth) == 4
    for twin in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        model.model_copy(),
        Marith.from_json(model.to_json()),
        Marith.from_dict(json.loads(json.dumps(model.to_dict()))),
    ):
        assert twin.to_dict() == model.to_dict()
        assert twin.complete("k l").text == truth
        assert len(twin.complete("k l", grammar=None).text) > 4
    assert json.loads(json.dumps(model.to_payload()))["grammar"]["kind"] == "regex"
    assert len(pickle.dumps(model)) < 100_000
    assert model.to_dict()["class_name"] == model.to_payload()["class_name"] == "Marith"


MADE = """
import sys
from llamaindex_marith import Marith
model = Marith(model='/nowhere', formula='2*a - M', terms={'a': 'A chef.'})
print(model.to_payload(), model.to_dict(), model)
print(*sys.modules)
"""


def test_making_and_showing_a_model_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", MADE], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "llamaindex_marith.llm" in modules
    assert not {"torch", "transformers", "pytest"} & {*modules}


def test_the_metadata_and_the_class_are_what_llama_index_expects(make: Make) -> None:
    model = make(max_tokens=24)
    assert isinstance(model, CustomLLM)
    assert isinstance(model, FunctionCallingLLM)
    assert isinstance(model, LLM)
    assert model.metadata.context_window == 1024
    assert model.metadata.num_output == 24
    assert model.metadata.is_chat_model
    assert model.metadata.is_function_calling_model
    assert LLMMetadata.model_validate_json(model.metadata.model_dump_json()) == model.metadata
    assert make(context_length=64).metadata.context_window == 64
