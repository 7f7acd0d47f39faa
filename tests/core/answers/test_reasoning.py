"""Reasoning is separated from the text, whether the prompt or the model begins it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from support.chat_families import speaker, tool

import marith
from marith import Engine, Grammar, Request, Sampling, Stop, Tools
from marith.testing import scripted_model, tiny_model

COLD = Sampling(0.0)
THOUGHT = "Let me see.\nIs it day?"
SCRIPT = [
    ("Begin", f"<think>\n{THOUGHT}\n</think>\n\nGood day."),
    ("Go on", f"{THOUGHT}\n</think>\n\nGood day."),
    ("Think only", f"<think>{THOUGHT}"),
    ("Say only", "Good <b>day</b>, think."),
    ("Open", "<this is text>"),
    ("Stop", "<t"),
]
PROMPT_OF = {"thinking": "Begin", "thinking special": "Begin", "opened": "Go on"}
LOOK = tool("look", at="string")
each_kind = pytest.mark.parametrize("kind", PROMPT_OF)


@pytest.fixture(scope="module")
def thinkers() -> Iterator[dict[str, Engine]]:
    """Engines whose models open their reasoning by text or special tokens, or find it opened."""
    with ExitStack() as stack:
        engines = {}
        for kind in PROMPT_OF:
            tokenizer = speaker(kind).tokenizer
            model = scripted_model(SCRIPT, tokenizer)
            engines[kind] = stack.enter_context(Engine.load(model, tokenizer=tokenizer))
        yield engines


@pytest.fixture(scope="module")
def by_letters() -> Iterator[Engine]:
    """An engine whose model opens its reasoning letter by letter."""
    tokenizer = deepcopy(speaker("chatml").tokenizer)
    tokenizer.chat_template = speaker("thinking").tokenizer.chat_template
    with Engine.load(scripted_model(SCRIPT, tokenizer), tokenizer=tokenizer) as engine:
        yield engine


def ask(engine: Engine, prompt: str, **options: Any) -> marith.Completion:
    return engine.generate(prompt, sampling=COLD, **options)


@each_kind
def test_reasoning_is_kept_apart_from_the_text(thinkers: dict[str, Engine], kind: str) -> None:
    out = ask(thinkers[kind], PROMPT_OF[kind])
    assert (out.reasoning, out.text, out.finish_reason) == (THOUGHT, "Good day.", "stop")


@each_kind
def test_reasoning_tokens_are_counted_within_the_completion_tokens(
    thinkers: dict[str, Engine], kind: str
) -> None:
    engine = thinkers[kind]
    out = ask(engine, PROMPT_OF[kind])
    said = len(engine.encode("\n\nGood day."))
    thought = len(engine.encode(THOUGHT))
    assert thought <= out.usage.reasoning_tokens <= len(out.tokens) - said
    assert out.usage.completion_tokens == len(out.tokens)
    assert ask(thinkers["thinking"], "Say only").usage.reasoning_tokens == 0


def test_an_answer_whose_reasoning_never_ends_has_no_text(thinkers: dict[str, Engine]) -> None:
    out = ask(thinkers["thinking"], "Think only")
    assert (out.reasoning, out.text, out.finish_reason) == (THOUGHT, "", "stop")
    cut = ask(thinkers["thinking"], "Begin", stop=Stop(12))
    assert (cut.text, cut.finish_reason) == ("", "length")
    assert THOUGHT.startswith(cut.reasoning)
    assert cut.reasoning


def test_no_part_of_a_mark_is_text_or_reasoning(by_letters: Engine) -> None:
    """Wherever `max_tokens` cuts the answer."""
    whole = ask(by_letters, "Begin")
    assert (whole.reasoning, whole.text) == (THOUGHT, "Good day.")
    for most in range(1, len(whole.tokens)):
        cut = ask(by_letters, "Begin", stop=Stop(most))
        assert THOUGHT.startswith(cut.reasoning.rstrip())
        assert whole.text.startswith(cut.text)
        chunks = [*by_letters.stream("Begin", sampling=COLD, stop=Stop(most))]
        assert "".join(chunk.text for chunk in chunks) == cut.text
        assert "".join(chunk.reasoning for chunk in chunks) == cut.reasoning


def test_text_that_only_begins_like_a_mark_is_text(by_letters: Engine) -> None:
    """As soon as another letter, or the end that the model chose, shows that it is no mark.

    Until then a cut text lacks it, and the text that continues it has it.
    """
    assert ask(by_letters, "Stop").text == "<t"
    whole = ask(by_letters, "Open")
    assert whole.text == "<this is text>"
    for most in range(1, len(whole.tokens)):
        cut = ask(by_letters, "Open", stop=Stop(most))
        on = ask(by_letters, "Open", prefix=cut.tokens)
        assert cut.text + on.text == whole.text
    assert ask(by_letters, "Open", stop=Stop(2)).text == ""


def test_a_mark_of_calls_in_reasoning_is_text_if_no_call_follows(
    thinkers: dict[str, Engine],
) -> None:
    """With marks that are letters to the tokenizer, as a model's own words are."""
    known = speaker("thinking")
    begun = f"I may write {known.tool_format.calls.opening}"
    script = [("", f"<think>{begun} but will not.</think>No.")]
    with Engine.load(scripted_model(script, known.tokenizer), tokenizer=known.tokenizer) as engine:
        out = ask(engine, "Begin", tools=Tools((LOOK,)))
    assert (out.reasoning, out.text, out.calls) == (f"{begun} but will not.", "No.", ())


@pytest.fixture(scope="module")
def wild() -> Iterator[Engine]:
    """A model with random weights, which opens its reasoning or finds it opened."""
    known = speaker("opened")
    model = tiny_model(vocab=known.size, seed=5, sharpness=2.0, context_length=512)
    with Engine.load(model, tokenizer=known.tokenizer) as engine:
        yield engine


def test_a_random_model_obeys_its_grammar_whatever_it_thinks(wild: Engine) -> None:
    """The n-gram ends the reasoning sooner than the model would."""
    asked = Request(
        "q",
        "M + ngram(texts=['</think>'], order=1)",
        stop=Stop(60),
        grammar=Grammar.json_schema({"enum": ["été", "мир", 7]}),
    )
    requests = [
        replace(asked, sampling=Sampling(1.0, seed=seed), speculation=how)
        for seed in range(40)
        for how in ("auto", None)
    ]
    done = [ticket.result(60) for ticket in [wild.submit(one) for one in requests]]
    ended = [out for out in done if out.finish_reason == "stop"]
    assert len(ended) >= 25
    assert all(json.loads(out.text) in ["été", "мир", 7] for out in ended)
    assert len({out.text for out in ended}) >= 2
    assert len({out.reasoning for out in ended}) >= 10
    for auto, plain in zip(done[::2], done[1::2], strict=True):
        assert (auto.tokens, auto.text, auto.reasoning) == (
            plain.tokens,
            plain.text,
            plain.reasoning,
        )
