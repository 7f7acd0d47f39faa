"""Options of a model, and what calls, files and LlamaIndex's own fields override."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts.chat_prompts import CHAT_TEXT_QA_PROMPT
from pydantic import ValidationError
from support.error_sentences import CONSTRUCTOR_MISTAKES, MODEL
from support.llamaindex_calls import Make

import marith
from llamaindex_marith import Marith, context_of

FOUND = CHAT_TEXT_QA_PROMPT.format_messages(context_str="a b c", query_str="k l")
MINE = [ChatMessage("k <found>a b c</found> l")]
FILE = """
[terms]
formal = "x y z"

[formulas]
plain = "M"
careful = { formula = "2*formal - M", faithful = 0.5 }
mine = { formula = "M", faithful = 0.5, faithful_to = "<found>.*?</found>" }
"""


def strength(model: Marith, messages: list[ChatMessage], /, **options: Any) -> float:
    """How faithful an answer was, as it says itself."""
    answer = model.chat(messages, max_tokens=2, **options)
    assert answer.raw is not None
    return float(answer.raw["composition"]["faithful"])


def test_answers_are_faithful_where_something_was_retrieved(make: Make) -> None:
    model = make(faithful=0.5)
    assert strength(model, FOUND) == 0.5
    assert strength(model, MINE) == 0
    assert strength(model, MINE, faithful_to="<found>.*?</found>") == 0.5
    assert strength(model, FOUND, faithful=0) == 0
    assert strength(make(), FOUND, faithful=0.25) == 0.25


def test_the_formula_that_answered_is_reported_with_names_of_terms(make: Make) -> None:
    answer = make(faithful=0.5, max_tokens=4, formula="2*a - M").chat(FOUND)
    assert answer.raw is not None
    costs = answer.raw["composition"]
    assert costs["formula"] == '(2*a - M).min_p(0.1) + 0.5*(M - prompted(hide="…"))'
    assert costs["terms"].keys() == {"a", "M", 'prompted(hide="…")'}


def test_a_template_of_ones_own_is_known_beside_those_of_llama_index(make: Make) -> None:
    mine = PromptTemplate("Notes:\n{context_str}\nEnd of notes.\n{query_str}")
    asked = mine.format_messages(context_str="a b c", query_str="k l")
    for pattern in (context_of(mine), r"(?is)notes:\s(?P<notes>[^E]*)End"):
        model = make(faithful=0.5, faithful_to=pattern)
        assert strength(model, asked) == strength(model, FOUND) == 0.5
        assert strength(model, [ChatMessage("k l")]) == 0
    assert strength(make(faithful=0.5), asked) == 0


def test_the_log_says_once_how_to_name_a_template_of_ones_own(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [ChatMessage("Our notes:\na b c\nNow answer: k l")]
    for model in (make(faithful=0.5, faithful_to="not here"),) * 2:
        strength(model, asked)
        strength(model, FOUND)
    [once] = [each for each in caplog.messages if "faithful is 0.5" in each]
    assert "context_of(template)" in once


def test_a_persona_of_a_file_has_its_own_value_of_faithful(tiny_dir: str, tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(f'[model]\nmodel = "{tiny_dir}"\n{FILE}')
    model = Marith.from_file(path, "plain")
    assert strength(model, FOUND) == 0
    assert strength(model, FOUND, model="careful") == 0.5
    assert strength(model, MINE, model="mine") == 0.5
    assert strength(Marith.from_file(path, "mine"), FOUND, model="careful") == 0.5
    careful = Marith.from_file(path, "careful")
    for twin in (
        careful,
        Marith(**careful.chosen()),
        pickle.loads(pickle.dumps(careful)),
        Marith.from_dict(json.loads(json.dumps(careful.to_dict()))),
    ):
        assert strength(twin, FOUND) == 0.5
        assert len(json.dumps(twin.to_dict())) < 3000  # no pattern of a release's templates


@pytest.mark.parametrize(
    ("grammar", "says"),
    [
        ("x", "grammar: Input should be an instance of Grammar, not 'x'"),
        ({"kind": "regex"}, "grammar: Input should be an instance of Grammar, not {'kind'"),
        ({"kind": "regex", "text": "("}, r"'\(' is not a valid regex"),
    ],
)
def test_an_invalid_grammar_is_refused(grammar: Any, says: str) -> None:
    with pytest.raises(marith.RequestError, match=says):
        Marith(model="/nowhere", grammar=grammar)


@pytest.mark.parametrize(("options", "kind", "message"), CONSTRUCTOR_MISTAKES)
def test_a_constructor_raises_the_error_of_marith_alone(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    message = message.replace(MODEL, "Marith")
    with pytest.raises(marith.MarithError) as caught:
        Marith(**options)
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert caught.value.__suppress_context__
    with pytest.raises(ValidationError) as refused:  # as pydantic promises
        Marith.model_validate(options)
    assert str(marith.errors.from_validation(refused.value)) == message
    assert Marith.model_validate({"formula": "2*M"}).formula == "2*M"


def test_a_positional_argument_is_told_its_name() -> None:
    make: Any = Marith
    with pytest.raises(marith.RequestError, match="by name only: write model='pocket'"):
        make("pocket")
    with pytest.raises(TypeError, match="by name only: write name=value"):
        make(5)


def test_a_calls_formula_is_refused_without_the_error_of_pydantic() -> None:
    with pytest.raises(marith.FormulaError) as caught:
        Marith(model="/nowhere").complete("k l", formula="2*a -")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_function_that_makes_no_text_of_a_prompt_is_refused() -> None:
    nothing: Any = lambda *_: None  # noqa: E731 (as short as it is wrong)
    with pytest.raises(marith.RequestError, match="a prompt is a text, not None"):
        Marith(model="/nowhere", completion_to_prompt=nothing).complete("k")
    with pytest.raises(marith.RequestError, match="a prompt is a text, not None"):
        Marith(model="/nowhere", messages_to_prompt=nothing).chat([ChatMessage("k")])


def test_a_formula_over_bytes_has_models_of_other_vocabularies(letters_dir: str) -> None:
    terms = {"o": marith.Prompted(model=letters_dir)}
    options: dict[str, Any] = {"formula": "0.9*M + 0.1*o", "terms": terms, "over": "bytes"}
    model = Marith(**options, max_tokens=12, seed=2, ignore_eos=True)
    answer = model.complete("Name a fruit.")
    assert answer.raw is not None
    assert answer.raw["usage"]["completion_tokens"] == 12
    assert model.encode("é!") == [0xC3, 0xA9, 0x21]
    # A token has at least one byte, so each model's context holds this number of bytes.
    assert (model.metadata.context_window, model.metadata.num_output) == (512, 12)
    writing = marith.Grammar.regex("é東🙂")
    pieces = model.stream_complete("Hi", grammar=writing, ignore_eos=False)
    assert [each.delta for each in pieces if each.delta] == [*"é東🙂"]
