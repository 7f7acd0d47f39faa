"""A value is checked when options are made, as a request checks it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from pydantic import ValidationError

from langchain_marith import ChatMarith, MarithLLM
from llamaindex_marith import Marith
from marith import Options
from marith.errors import FormulaError, MarithError, RequestError, from_validation

WRONG = [
    ({"seed": 2**70}, "seed must be a whole number from"),
    ({"chat_template_kwargs": {"tokenize": True}}, "the template option 'tokenize' is set"),
    ({"chat_template_kwargs": 3}, "chat_template_kwargs must be a mapping, not 3"),
    ({"temperature": True}, "temperature must be a number of at least 0, not True"),
    ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, not 0"),
    ({"timeout": 0}, "timeout must be a finite number of seconds above 0, not 0"),
    ({"stop": 5}, "stop must be a list of texts, not 5"),
    ({"stop": [""]}, "each item of stop must be a non-empty text, not ''"),
    ({"context_length": 1}, "context_length must be a whole number of at least 2, not 1"),
    ({"over": "letters"}, "over must be 'tokens' or 'bytes', not 'letters'"),
    ({"cache_bytes": "1GB"}, "cache_bytes must be a whole number of at least 0, not '1GB'"),
    ({"steer_tools": 1}, "steer_tools must be True or False, not 1"),
    ({"faithful": 101}, "faithful must be a number from 0 to 100, not 101"),
]  # fmt: skip


def error_of(kind: type[Options]) -> type[Exception]:
    """The error of a constructor: pydantic's of `Options`, and marith's own of an adapter."""
    return ValidationError if kind is Options else MarithError


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_a_value_that_a_request_refuses_is_refused_when_options_are_made(
    options: dict[str, Any], says: str
) -> None:
    for make in (lambda: Options(**options), lambda: Options().overridden(options)):
        with pytest.raises((ValidationError, RequestError)) as refused:
            make()
        error = refused.value
        problem = from_validation(error) if isinstance(error, ValidationError) else error
        assert isinstance(problem, RequestError)
        assert re.search(says, str(problem))


@pytest.mark.parametrize("kind", [Options, ChatMarith, MarithLLM, Marith])
def test_an_invalid_formula_is_refused_as_in_a_request(kind: Any) -> None:
    for value in (None, 5):
        with pytest.raises(error_of(kind), match=f"a formula is a text or a Formula, not {value}"):
            kind(formula=value)


def test_whole_numbers_are_numbers_and_a_text_is_a_list_of_one() -> None:
    given: dict[str, Any] = {"timeout": numpy.int64(3), "stop": "x", "ban": "bad"}
    options = Options(temperature=1, seed=2**63 - 1, **given)
    assert (options.temperature, options.timeout, options.stop) == (1, 3, ["x"])
    assert options.ban == ["bad"]
    assert options.overridden({"stop": "y", "ban": "worse"}).stop == ["x", "y"]
    assert Options(device="cuda:1", dtype="torch.float16").device == "cuda:1"


def test_a_misspelt_option_has_a_suggestion(tmp_path: Path) -> None:
    for kind in (Options, ChatMarith, MarithLLM, Marith):
        says = f"{kind.__name__} takes no option 'temprature'; did you mean 'temperature'"
        with pytest.raises(error_of(kind), match=says):
            kind(temprature=0)
    with pytest.raises(RequestError, match="Options takes no option 'temprature'; did you mean"):
        Options().overridden({"temprature": 0})
    path = tmp_path / "marith.toml"
    path.write_text("[model]\ntemprature = 0")
    with pytest.raises(FormulaError, match="there is no option 'temprature'; did you mean"):
        Options.from_file(path)


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("device", "gpu", "device must be a device of torch"),
        ("dtype", "float99", "dtype must be a floating-point type of torch"),
        ("formula", "M +", "not a formula"),
        ("formula", "M - nobody", "unknown term 'nobody'"),
        ("file", "/nowhere.toml", "cannot read '/nowhere.toml'"),
    ],
)
def test_an_error_in_the_environment_names_the_variable(
    option: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MARITH_{option.upper()}", value)
    for kind in (Options, ChatMarith, Marith):
        says = f"the environment variable MARITH_{option.upper()}: {problem}"
        with pytest.raises(error_of(kind), match=says):
            kind()
    with pytest.raises(ValidationError) as given:
        Options(**{option: value})
    assert "MARITH_" not in str(given.value)
    known: dict[str, Any] = {"device": "cpu", "dtype": "float32", "formula": "M", "file": None}
    assert Options(**{option: known[option]})
