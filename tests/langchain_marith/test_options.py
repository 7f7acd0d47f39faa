"""A model's options: checked when they are given, one by one, and all that an answer depends on."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.load import dumpd, dumps, loads
from langchain_core.messages import HumanMessage
from langchain_core.runnables import ConfigurableField
from support.langchain_models import Make, clock, engine_answer

import marith
from langchain_marith import ChatMarith, MarithLLM


def test_the_formula_in_metadata_is_the_one_that_answered(make: Make) -> None:
    model = make(faithful=0.5, faithful_to="<found>.*</found>", max_tokens=4, formula="2*a - M")
    answers = [model.invoke(text) for text in ("<found>k</found> l", "k l")]
    found, plain = (answer.response_metadata["composition"] for answer in answers)
    assert found["formula"] == '(2*a - M).min_p(0.1) + 0.5*(M - prompted(hide="…"))'
    assert found["terms"].keys() == {"a", "M", 'prompted(hide="…")'}
    assert plain["formula"] == "2*a - M"


def test_a_call_may_change_what_is_sampled(make: Make, tiny_dir: str) -> None:
    model = make()
    other = model.invoke("k l", formula="c", terms={"c": "q r"}, max_tokens=24)
    assert other.text == engine_answer(tiny_dir, "k l", formula="c", terms={"c": "q r"}).text
    assert other.text != model.invoke("k l").text
    assert other.response_metadata["composition"]["formula"] == "c"
    short = model.invoke("k l", max_tokens=3)
    assert short.response_metadata["finish_reason"] == "length"
    assert (short.usage_metadata or {})["output_tokens"] == 3
    greedy = {model.invoke("k l", temperature=0, seed=seed).text for seed in (1, 2, 3)}
    assert len(greedy) == 1
    assert model.bind(seed=6).invoke("k l").text == make(seed=6).invoke("k l").text


def test_a_formula_is_kept_as_its_text(make: Make) -> None:
    a, b = marith.Prompted("a b c"), marith.Prompted("x y z")
    by_formula = make(formula=2 * a - 0.5 * b, terms={})
    by_term = make(terms={"a": a, "b": b})
    truth = make().invoke("k l").text
    assert by_formula.formula == str(2 * a - 0.5 * b)
    assert by_term.terms == {"a": "a b c", "b": "x y z"}
    assert by_formula.invoke("k l").text == by_term.invoke("k l").text == truth


def test_two_formulas_never_share_an_answer(make: Make) -> None:
    cache = InMemoryCache()
    one, other = make(cache=cache), make(cache=cache, formula="a")
    first = one.invoke("k l").text
    assert other.invoke("k l").text == make(formula="a").invoke("k l").text != first
    assert one.invoke("k l", temperature=0).text == make(temperature=0).invoke("k l").text
    unseeded = make(cache=cache, seed=None)
    assert unseeded.invoke("k l").text == unseeded.invoke("k l").text


async def test_cached_answers_know_tools_formats_and_all_else(scripted: Make) -> None:
    cache = InMemoryCache()
    model, asked = scripted(cache=cache), "What time is it?"
    plain = model.invoke(asked)
    called = model.bind_tools([clock]).invoke(asked)
    formed = model.invoke(asked, grammar=marith.Grammar.regex("[ab]"))
    assert (plain.tool_calls, len(called.tool_calls)) == ([], 1)
    assert formed.text in ("a", "b")
    again = model.bind_tools([clock]).invoke(asked)
    assert again.tool_calls == called.tool_calls  # its id too: the very answer
    assert (await model.bind_tools([clock]).ainvoke(asked)).tool_calls == called.tool_calls
    assert len(cache._cache) == 3


each_option = pytest.mark.parametrize(
    "options",
    [
        {"formula": "b"},
        {"terms": {"a": "q", "b": "r"}},
        {"temperature": 0.5},
        {"seed": 6},
        {"speculation": None},
        {"speculation": marith.Plan.factors({"b": 2})},
        {"cache_salt": "a"},
        {"chat_template_kwargs": {"x": 1}},
        {"steer_tools": False},
        {"revision": "v2"},
    ],
    ids=str,
)


@each_option
def test_the_identity_of_a_model_has_everything_that_a_text_depends_on(
    make: Make, options: dict[str, Any]
) -> None:
    one, other = make(), make(**options)
    assert one._identifying_params != other._identifying_params
    assert one._get_llm_string() != other._get_llm_string() == make(**options)._get_llm_string()
    assert one._get_llm_string(**options) != one._get_llm_string()
    assert " at 0x" not in other._get_llm_string() + repr(other)
    json.dumps(other._identifying_params)


def test_a_model_is_a_plain_value(make: Make) -> None:
    model = make(speculation=marith.Plan.factors({"b": 2}))
    truth = model.invoke("k l").text
    for twin in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        model.model_copy(),
        ChatMarith.model_validate_json(model.model_dump_json(exclude_none=True)),
    ):
        assert twin == model
        assert twin.invoke("k l").text == truth
    bound = pickle.loads(pickle.dumps(model.bind_tools([clock])))
    assert bound.kwargs == model.bind_tools([clock]).kwargs


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("kind", [ChatMarith, MarithLLM])
def test_langchains_own_format_neither_leaks_nor_loses(make: Make, kind: Any) -> None:
    assert not kind.is_lc_serializable()  # LangChain loads it only where it is told to
    plan = marith.Plan.factors({"b": 2})
    given = {"n": 2, "name": "one", "speculation": plan, "max_tokens": None, "cache_salt": "a"}
    for options in ({}, given):
        model = kind(**{**make().chosen(), **options})
        text = dumps(model)
        assert "torch" not in text
        assert " at 0x" not in text
        back = loads(text, valid_namespaces=["langchain_marith"], allowed_objects=[kind])
        assert back == model
        by_both = [each.invoke("k l", n=1, max_tokens=9) for each in (back, model)]
        assert len({str(getattr(answer, "text", answer)) for answer in by_both}) == 1
    for no_data in ({"constraints": [print]}, {"engine": marith.Engine.shared(make().model)}):
        assert dumpd(kind(**no_data))["type"] == "not_implemented"


def test_fields_can_be_configured_without_a_second_engine(make: Make, tiny_dir: str) -> None:
    engine = marith.Engine.shared(tiny_dir)
    model = make().configurable_fields(
        formula=ConfigurableField(id="formula"), temperature=ConfigurableField(id="heat")
    )
    answer = model.invoke("k l", config={"configurable": {"formula": "b", "heat": 0.2}})
    assert answer.text == make(formula="b", temperature=0.2).invoke("k l").text
    assert answer.response_metadata["composition"]["formula"] == "b"
    assert model.invoke("k l").text == make().invoke("k l").text
    assert marith.Engine.shared(tiny_dir) is engine
    other = make().configurable_alternatives(ConfigurableField(id="who"), b=make(formula="b"))
    assert other.invoke("k l", config={"configurable": {"who": "b"}}).text == (
        make(formula="b").invoke("k l").text
    )


PERSONAS = """
[model]
model = {model!r}
max_tokens = 24
seed = 4

[terms]
a = "a b c"
b = "x y z"

[formulas]
plain = "a"
bent = {{formula = "2*a - 0.5*b", description = "leans away from b", temperature = 0.9}}
"""


async def test_a_file_gives_formulas_by_name(tiny_dir: str, tmp_path: Path, make: Make) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(PERSONAS.format(model=tiny_dir))
    bent, plain = make().invoke("k l").text, make(formula="a", temperature=1).invoke("k l").text
    model = ChatMarith.from_file(str(path), "plain", cache=InMemoryCache())
    by_config = model.configurable_fields(model=ConfigurableField(id="model"))
    answers = [
        await model.ainvoke("k l", model="bent"),
        ChatMarith.from_file(str(path), "bent").invoke("k l"),
        by_config.invoke("k l", config={"configurable": {"model": "bent"}}),
    ]
    assert {answer.text for answer in answers} == {bent}
    assert {answer.response_metadata["model_name"] for answer in answers} == {"bent"}
    assert model.invoke("k l").text == plain != bent
    assert model._get_ls_params()["ls_model_name"] == "plain"
    assert model._get_ls_params(model="bent")["ls_model_name"] == "bent"
    assert "file" not in model._identifying_params
    text = MarithLLM.from_file(str(path), "plain")
    assert (text.invoke("k l"), text.invoke("k l", model="bent")) == (plain, bent)


def test_traces_show_which_model_is_called(make: Make, tiny_dir: str) -> None:
    params = make(stop=["x"])._get_ls_params(stop=["y"])
    assert params == {
        "ls_provider": "marith",
        "ls_model_name": tiny_dir,
        "ls_model_type": "chat",
        "ls_temperature": 0.9,
        "ls_max_tokens": 24,
        "ls_stop": ["x", "y"],
    }
    assert (make().metadata or {})["lc_versions"]["marith"] == marith.__version__


def test_a_profile_lists_what_the_model_can_do(make: Make) -> None:
    profile = make().profile
    assert profile is not None
    for able in ("tool_calling", "tool_choice", "structured_output", "text_inputs"):
        assert profile[able]  # type: ignore[literal-required]
    assert not profile["image_inputs"]
    assert profile["max_input_tokens"] == 1024
    assert "max_input_tokens" not in (make(model="/nowhere").profile or {"max_input_tokens": 0})
    assert (make(context_length=64).profile or {})["max_input_tokens"] == 64
    own = {"max_input_tokens": 7}
    assert make(profile=own).profile == own


def test_a_formula_over_bytes_has_models_of_other_vocabularies(letters_dir: str) -> None:
    terms = {"o": marith.Prompted(model=letters_dir)}
    options: dict[str, Any] = {"formula": "0.9*M + 0.1*o", "terms": terms, "over": "bytes"}
    model = ChatMarith(**options, max_tokens=12, seed=2, ignore_eos=True)
    engine = marith.Engine.shared("pocket", over="bytes")
    answer = model.invoke("Name a fruit.")
    said = engine.generate(
        "Name a fruit.", "0.9*M + 0.1*o", terms, max_tokens=12, seed=2, ignore_eos=True
    )
    assert answer.content == said.text
    # Counts are counts of bytes.
    assert (answer.usage_metadata or {})["output_tokens"] == 12
    messages = [HumanMessage("Name a fruit.")]
    assert model.get_num_tokens("é!") == 3
    asked = (answer.usage_metadata or {})["input_tokens"]
    assert asked == model.get_num_tokens_from_messages(messages)
    writing = marith.Grammar.regex("é東🙂")
    pieces = [chunk.text for chunk in model.stream("Hi", grammar=writing, ignore_eos=False)]
    assert [*filter(None, pieces)] == [*"é東🙂"]
    with pytest.raises(marith.FormulaError, match="load the engine with over='bytes'"):
        ChatMarith(**{**options, "over": "tokens"}).invoke("Hi")
