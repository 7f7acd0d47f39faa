"""What goes wrong raises at once, as an error of marith's and of LangChain's."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core import exceptions
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError
from support.error_sentences import CONSTRUCTOR_MISTAKES, MODEL
from support.langchain_models import Make

import marith
from langchain_marith import ChatMarith, MarithLLM
from langchain_marith.exceptions import translated

TWINS = {
    marith.ContextOverflow: exceptions.ContextOverflowError,
    marith.RequestError: exceptions.ModelInvalidRequestError,
    marith.FormulaError: exceptions.ModelInvalidRequestError,
    marith.errors.Untrusted: exceptions.ModelInvalidRequestError,
    marith.errors.TooLarge: exceptions.ModelInvalidRequestError,
    marith.errors.UnknownOption: exceptions.ModelInvalidRequestError,
    marith.ModelError: exceptions.ModelNotFoundError,
    marith.DeadlineExceeded: exceptions.ModelTimeoutError,
    marith.Busy: exceptions.ModelRateLimitError,
    marith.EngineClosed: exceptions.ModelConnectionError,
}

# LlamaIndex knows the passages of its own templates, so only LangChain needs the pattern.
FAITHFUL = (
    {"faithful": 0.5},
    marith.RequestError,
    "faithful is 0.5, but faithful_to is not set; write a regular expression that matches the "
    "retrieved passages in a prompt, such as faithful_to='(?s)<context>.*?</context>'",
)


@pytest.mark.parametrize(("own", "langchains"), TWINS.items())
def test_errors_can_be_caught_as_errors_of_marith_or_of_langchain(
    own: type[Exception], langchains: type[Exception]
) -> None:
    cause = KeyError("why")
    for kind in (own, langchains, exceptions.ModelError, marith.MarithError):
        with pytest.raises(kind, match="what is wrong") as caught, translated():
            raise own("what is wrong") from cause
        # The original error would repeat the message, so only its own cause is shown.
        assert caught.value.__cause__ is cause
        assert caught.value.__suppress_context__
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), own)


async def test_a_prompt_too_long_is_langchains_own_error(make: Make) -> None:
    model, prompt = make(), "k " * 1200
    with pytest.raises(exceptions.ContextOverflowError) as caught:
        model.invoke(prompt)
    assert isinstance(caught.value, marith.ContextOverflow)
    with pytest.raises(exceptions.ContextOverflowError):
        [chunk async for chunk in model.astream(prompt)]
    with pytest.raises(exceptions.ContextOverflowError):
        await MarithLLM(model=model.model).abatch([prompt, "k l"])


def test_every_error_of_marith_has_one_of_langchains() -> None:
    def kinds(of: type[marith.MarithError]) -> set[type[marith.MarithError]]:
        own = {kind for kind in of.__subclasses__() if kind.__module__.startswith("marith.")}
        return own.union(*map(kinds, own))

    assert kinds(marith.MarithError) == set(TWINS)


def test_a_model_that_is_not_there_is_not_found(make: Make) -> None:
    with pytest.raises(exceptions.ModelNotFoundError, match="/nowhere"):
        make(model="/nowhere").invoke("k l")
    with pytest.raises(marith.ModelError, match="/nowhere"):
        make(model="/nowhere").get_num_tokens_from_messages([])
    for count in (ChatMarith.get_num_tokens, ChatMarith.get_token_ids):
        with pytest.raises(exceptions.ModelNotFoundError, match="/nowhere"):
            count(make(model="/nowhere"), "k")


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"formula": "M - 2*M"}, marith.FormulaError, "more than zero"),
        ({"model": "calm", "formula": "2*M"}, marith.FormulaError, "'calm' is a formula of"),
        ({"temperature": -1}, marith.RequestError, "temperature must be .*, not -1"),
    ],
)
async def test_an_invalid_option_of_a_call_is_an_error_of_both_kinds(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], problem: str
) -> None:
    path = tmp_path / "marith.toml"
    path.write_text('[model]\nmodel = "/nowhere"\n[formulas]\ncalm = "0.5*M"\n')
    for model in (ChatMarith.from_file(path), MarithLLM.from_file(path)):
        for caught in (kind, ValueError, exceptions.ModelInvalidRequestError):
            with pytest.raises(caught, match=problem):
                model.invoke("k l", **options)
        with pytest.raises(exceptions.ModelInvalidRequestError, match=problem):
            await model.ainvoke("k l", **options)
        with pytest.raises(exceptions.ModelInvalidRequestError, match=problem):
            list(model.stream("k l", **options))


def test_a_calls_formula_is_quoted_where_it_is_wrong(make: Make) -> None:
    with pytest.raises(marith.FormulaError) as caught:
        make(model="/nowhere").invoke("k l", formula="2*a -")
    assert caught.value.text == "2*a -"
    assert "^" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("model", [ChatMarith, MarithLLM])
@pytest.mark.parametrize(("options", "kind", "message"), [*CONSTRUCTOR_MISTAKES, FAITHFUL])
def test_a_constructor_raises_an_error_of_both_kinds(
    model: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    message = message.replace(MODEL, model.__name__)
    for caught in (kind, ValueError, exceptions.ModelInvalidRequestError):
        with pytest.raises(caught) as refused:
            model(**options)
        assert str(refused.value) == message
        assert refused.value.__suppress_context__
    with pytest.raises(ValidationError) as invalid:  # as pydantic promises
        model.model_validate(options)
    assert str(marith.errors.from_validation(invalid.value)) == message
    assert model.model_validate({"formula": "2*M"}).formula == "2*M"


@pytest.mark.parametrize("model", [ChatMarith, MarithLLM])
def test_a_faulty_file_is_an_error_of_both_kinds(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    for text, says in (
        ("[formulas]\na = 'M - M'", "2\\*M - M"),
        ("[model]\ntempe = 1", "'temperat"),
    ):
        path.write_text(text)
        for kind in (marith.FormulaError, exceptions.ModelInvalidRequestError):
            with pytest.raises(kind, match=says) as refused:
                model.from_file(path)
            assert refused.value.__suppress_context__
    path.write_text("[formulas]\na = 'M'")
    with pytest.raises(exceptions.ModelInvalidRequestError, match="no formula 'b'"):
        model.from_file(path, "b")
    assert model.from_file(path, "a").model == "pocket"


@pytest.mark.parametrize("model", [ChatMarith, MarithLLM])
def test_a_positional_argument_is_told_its_name(model: Any) -> None:
    for kind in (marith.RequestError, TypeError, exceptions.ModelInvalidRequestError):
        with pytest.raises(kind) as refused:
            model("pocket")
        named = f"{model.__name__} takes options by name only: write model='pocket'"
        assert str(refused.value) == named
    with pytest.raises(marith.RequestError, match=r"takes no option 'num_return_seq.*; write n=…"):
        model(num_return_sequences=3)


def test_a_configured_model_raises_an_error_of_both_kinds(make: Make) -> None:
    model = make().configurable_fields(formula=ConfigurableField(id="formula"))
    with pytest.raises(exceptions.ModelInvalidRequestError, match="write, for example, 2\\*M - M"):
        model.invoke("k l", config={"configurable": {"formula": "M - M"}})


def test_an_error_while_a_text_is_made_comes_at_once(make: Make) -> None:
    model = make(max_tokens=900, max_lanes=2)
    engine = model.engine()
    stream = model.stream("k l", temperature=1.0)
    next(stream)
    engine.close()
    began = time.monotonic()
    with pytest.raises(exceptions.ModelConnectionError, match="closed"):
        list(stream)
    assert time.monotonic() - began < 5
