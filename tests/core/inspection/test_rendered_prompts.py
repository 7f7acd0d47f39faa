"""The prompt that each term of a formula reads, as text: templates, tools and hidden text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers import AutoTokenizer

import marith
from marith import Engine, Prompted, RequestError, Tools
from marith.errors import UnknownOption
from marith.scoring.weights.locate import locate
from marith.testing import tiny_model, tiny_tokenizer

TOKENIZER = AutoTokenizer.from_pretrained(locate("pocket"))
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is it? <page>In the sea.</page>"},
]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


def test_prompts_are_listed_by_name_or_by_the_text_of_the_term(engine: Engine) -> None:
    unread = Prompted(hide="(?s)<page>.*</page>")
    formula = "M + 0.5*(formal - blind) + 0.1*prompted('Be rude.')"
    read = marith.rendered_prompts(
        engine, CHAT, formula, {"formal": "Speak formally.", "blind": unread}
    )
    inline = str(Prompted("Be rude."))
    assert {*read} == {"M", "formal", "blind", inline}
    chat = TOKENIZER.apply_chat_template
    rendered = chat(CHAT, tokenize=False, add_generation_prompt=True)
    assert read["M"] == rendered
    assert read["formal"] == rendered.replace("Be brief.", "Be brief.\n\nSpeak formally.")
    assert read["blind"] == rendered.replace("<page>In the sea.</page>", "")
    assert read[inline] == rendered.replace("Be brief.", "Be brief.\n\nBe rude.")


def test_prompts_have_the_tools_and_the_options_of_the_template(engine: Engine) -> None:
    tools = Tools((WEATHER,))
    read = marith.rendered_prompts(
        engine, "Is it raining?", "x - 0.5*M", {"x": "Be kind."}, tools=tools
    )
    for text in read.values():
        assert "Tell the weather." in text
        assert "Is it raining?" in text
    assert "Be kind." in read["x"]
    assert "Be kind." not in read["M"]


def test_rendered_prompts_are_the_prompts_that_are_scored(engine: Engine) -> None:
    """The text of a reading, as tokens, has the scores of the prompt that it was read from."""
    read = marith.rendered_prompts(engine, "Where is it?")["M"]
    tokens = TOKENIZER.encode(read, add_special_tokens=False)
    scores = engine.score(tokens, "In the sea.")
    assert scores == pytest.approx(engine.score("Where is it?", "In the sea."), abs=1e-4)


def test_prompts_of_plain_templates_and_of_tokens_are_rendered() -> None:
    """Names of one meaning, tokens, plain templates, and terms that read no prompt."""
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer()) as engine:
        plain = Prompted("d e", template="plain")
        read = marith.rendered_prompts(
            engine, "a b", "x + y + 0.1*uniform()", {"x": plain, "y": plain}
        )
        assert {*read} == {"x", "y"}
        assert read["x"] == read["y"]
        assert [read["x"].index(word) for word in "deab"] == sorted(map(read["x"].index, "deab"))
        tokens = engine.encode("a b", start=True)
        assert marith.rendered_prompts(engine, tokens) == {"M": engine.spell(tokens)}


def test_options_that_generate_refuses_are_refused(engine: Engine) -> None:
    with pytest.raises(UnknownOption, match="seed"):
        marith.rendered_prompts(engine, "a", seed=1)  # type: ignore[call-arg]  # no option of this call
    with pytest.raises(RequestError, match="a prompt must be"):
        marith.rendered_prompts(engine, 3)  # type: ignore[arg-type]  # no prompt
