"""A loaded engine and functions as options: used as they are, and never treated as plain data."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

import marith
from langchain_marith import ChatMarith, MarithLLM
from llamaindex_marith import Marith
from marith import Options
from marith.errors import FormulaError, RequestError
from marith.testing import tiny_model, tiny_tokenizer

KINDS = (Options, ChatMarith, MarithLLM, Marith)
CALL: dict[str, Any] = {"seed": 1, "max_tokens": 12, "formula": "2*a - M", "terms": {"a": "x y"}}
REFUSED = RequestError, PydanticSerializationError  # the second is pydantic's, around the first
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def engine() -> Iterator[marith.Engine]:
    """An engine over a model that no name leads to."""
    with marith.Engine.load(tiny_model(seed=5), tokenizer=tiny_tokenizer()) as loaded:
        yield loaded


def answer(model: Any, prompt: str = "k l", **call: Any) -> str:
    """What a model answers in its framework's way; of plain options, what its ticket gives."""
    match model:
        case ChatMarith():
            return str(model.invoke(prompt, **call).text)
        case MarithLLM():
            return str(model.invoke(prompt, **call))
        case Marith():
            return str(model.complete(prompt, **call).text)
    return str(model.overridden(call).submit(prompt).result().text)


def never_last(rows: Any, text: list[int], places: list[int]) -> Any:
    """No token twice in a row."""
    for row, place in zip(rows, places, strict=True):
        if place:
            row[text[place - 1]] = float("-inf")
    return rows


def only(token: int) -> Any:
    """A function that allows one token."""

    def constraint(rows: Any, text: list[int], places: list[int]) -> Any:
        rows[:, :token] = rows[:, token + 1 :] = float("-inf")
        return rows

    return constraint


@each_kind
def test_an_engine_that_is_given_answers(kind: Any, engine: marith.Engine) -> None:
    truth = engine.generate("k l", **CALL).text
    model = kind(engine=engine, **CALL)
    assert model.engine() is engine
    assert model.model == engine.model_name == "LlamaForCausalLM"
    assert model.known_context() == engine.context_length
    assert answer(model) == truth != answer(kind(**CALL))
    for twin in (copy.deepcopy(model), model.model_copy(), model.overridden({"seed": 1})):
        assert twin.engine() is engine
        assert answer(twin) == truth
    assert (
        answer(kind(engine=engine, **CALL), seed=2)
        == engine.generate("k l", **CALL | {"seed": 2}).text
    )
    assert not engine.closed


def test_options_that_an_engine_decides_are_refused_beside_it(engine: marith.Engine) -> None:
    values = {"device": "cpu", "max_lanes": 3, "over": "bytes", "model": "pocket", "file": "/x"}
    for option, value in values.items():
        says = f"{option} is {value!r}, but the loaded engine already has .*; leave {option} out"
        with pytest.raises(ValidationError, match=says):
            Options(engine=engine, **{option: value})
        with pytest.raises((ValidationError, RequestError), match=option):
            Options(engine=engine).overridden({option: value})
    with pytest.raises(RequestError, match="takes no option 'engine'; set it when"):
        Options().overridden({"engine": engine})


def test_the_limits_are_those_of_the_engine() -> None:
    limits = {
        "max_lanes": 8,
        "max_queue": 9,
        "cache_bytes": 10**6,
        "loaded_bytes": 0,
        "max_batched_tokens": 99,
    }
    model, tokenizer = tiny_model(), tiny_tokenizer()
    with marith.Engine.load(model, tokenizer=tokenizer, **limits) as engine:
        for given in ({}, limits, dict.fromkeys(limits)):
            options = Options(engine=engine, **given)
            assert {name: getattr(options, name) for name in limits} == limits
            assert options.overridden({"seed": 1}).max_lanes == 8
        for name in limits:
            default = Options.model_fields[name].default or 1
            with pytest.raises(ValidationError, match=f"{name} is {default}, but the loaded"):
                Options(engine=engine, **{name: default})


def test_a_value_that_is_no_engine_is_refused_with_what_to_write(engine: marith.Engine) -> None:
    how = r"engine=marith.Engine.load\(model, tokenizer=…\)"
    for loaded in (tiny_model(), engine):
        says = (
            f"model is a name or a path, not {type(loaded).__name__}; pass a loaded model as {how}"
        )
        with pytest.raises(ValidationError, match=says):
            Options(model=loaded)
    with pytest.raises(ValidationError, match=f"takes no option 'tokenizer'; .* {how}"):
        Options(model="pocket", tokenizer=tiny_tokenizer())
    with pytest.raises(ValidationError, match=r"engine is a marith.Engine, .*, not 'pocket'"):
        Options(engine="pocket")


def test_a_model_may_be_an_enum_or_a_path() -> None:
    class Name(str, Enum):  # noqa: UP042 (a StrEnum is another kind)
        SMALL = "pocket"

    class Named(StrEnum):
        SMALL = "pocket"

    for model in (Name.SMALL, Named.SMALL, Path("pocket")):
        for options in (Options(model=model), Options().overridden({"model": model})):
            assert options.model == "pocket"
            assert type(options.model) is str


def test_the_environment_says_nothing_of_an_engine_that_is_given(
    engine: marith.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MODEL": "/nowhere", "DEVICE": "cuda", "FILE": "/none.toml"}.items():
        monkeypatch.setenv(f"MARITH_{name}", value)
    chat = ChatMarith(engine=engine, **CALL)
    assert (chat.device, chat.file, chat.model) == (None, None, engine.model_name)
    by_config = chat.configurable_fields(formula=ConfigurableField(id="formula"))
    other = by_config.invoke("k l", config={"configurable": {"formula": "a"}})
    assert other.text == engine.generate("k l", **CALL | {"formula": "a"}).text


@each_kind
@pytest.mark.parametrize(
    "what", ["a loaded engine cannot be", "functions in constraints cannot be"]
)
def test_neither_an_engine_nor_a_function_is_pickled_or_stored(
    kind: Any, what: str, engine: marith.Engine
) -> None:
    model = kind(engine=engine) if "engine" in what else kind(constraints=[never_last])
    stores = [model.chosen, lambda: pickle.dumps(model), model.model_dump, model.model_dump_json]
    if kind is Marith:
        stores += [model.to_dict, model.to_json]
    for store in stores:
        with pytest.raises(REFUSED, match=f"{what} "):
            store()
    assert dumpd(ChatMarith(engine=engine))["type"] == "not_implemented"


@each_kind
def test_constraints_are_options_and_of_calls(kind: Any, engine: marith.Engine) -> None:
    truth = engine.generate("k l", **CALL, constraints=[never_last]).text
    plain = engine.generate("k l", **CALL).text
    model = kind(engine=engine, constraints=[never_last], **CALL)
    assert answer(model) == truth != plain
    assert answer(model, constraints=None) == truth
    assert answer(model, constraints=[]) == plain
    model = kind(engine=engine, **CALL)
    assert answer(model, constraints=(never_last,)) == truth
    assert answer(model) == plain


def test_values_that_are_no_functions_are_refused() -> None:
    for wrong in (3, [3], "f"):
        with pytest.raises(ValidationError, match="constraints must be a list of functions, not"):
            Options(constraints=wrong)
        with pytest.raises(
            (RequestError, ValidationError), match="constraints must be a list of func"
        ):
            Options().overridden({"constraints": wrong})
    with pytest.raises(RequestError, match="must not set 'constraints'; it may set"):
        Options(trusted=False).overridden({"constraints": [never_last]})


def test_a_file_names_no_functions_and_no_engine(tmp_path: Any) -> None:
    path = tmp_path / "marith.toml"
    for option in ("constraints", "engine", "loaded_engine"):
        path.write_text(f"[model]\n{option} = ['f']")
        with pytest.raises(FormulaError, match=f"there is no option '{option}'"):
            Options.from_file(path)


def test_engines_and_functions_have_unique_names_in_the_identity(engine: marith.Engine) -> None:
    model = Options(engine=engine, constraints=[never_last])
    known = model.identity()
    assert known == Options(engine=engine, constraints=[never_last]).identity()
    assert known["engine"] != Options(engine=marith.Engine.shared()).identity()["engine"]
    assert Options().identity() == {k: v for k, v in Options().chosen().items() if k != "file"}
    names = {Options(constraints=[only(i % 3)]).identity()["constraints"][0] for i in range(40)}
    assert len(names) == 40  # though objects that are gone leave their place to others
