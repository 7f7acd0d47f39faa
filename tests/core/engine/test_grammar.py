"""A text follows its grammar: complete, in all scripts, under any formula, or an error says why."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.chat_families import speaker, tool
from support.held_passes import endless_engine

import marith
from marith import Engine, Formula, Grammar, Request, Sampling, Stop, Tools
from marith.decoding.evaluate import Evaluation, Value, node_value
from marith.testing import lanes_in_use, tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def pocket() -> Iterator[Engine]:
    with Engine.load("pocket", max_lanes=96) as engine:
        yield engine


SIZE = {"type": "integer", "minimum": -5, "maximum": 99}
PART = {"type": "object", "properties": {"größe": SIZE}}
SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {
            "with space": {"$ref": "#/$defs/Part"},
            "年齢": {"enum": ["grün", "青", 'a "quoted" one', "back\\slash", 7, True]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/Part"}, "maxItems": 2},
        },
        "required": ["with space", "年齢"],
        "$defs": {"Part": PART},
    },
    {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "maxLength": 9}},
    {"anyOf": [{"const": "ñandú 🌍"}, {"type": "null"}, PART, {"type": "boolean"}]},
]


def test_texts_of_schemas_are_valid(pocket: Engine) -> None:
    """From a persona that is stronger than the model was."""
    formula, terms = "2*formal - M", {"formal": "You are a formal butler."}
    asked = Request("Describe a thing.", formula, terms, stop=Stop(900))
    for schema in SCHEMAS:
        held = replace(asked, grammar=Grammar.json_schema(schema))
        requests = [replace(held, sampling=Sampling(1.3, seed=seed)) for seed in range(8)]
        for ticket in [pocket.submit(request) for request in requests]:
            out = ticket.result(120)
            assert out.finish_reason == "stop"
            assert "\ufffd" not in out.text
            jsonschema.Draft202012Validator(schema).validate(json.loads(out.text))


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1, max_size=9)


def spoken(engine: Engine, grammar: Grammar, seed: int, how: Any) -> marith.Completion:
    """A text that came in whole characters, piece by piece."""
    request = Request("q", "M", None, Sampling(1.0, seed=seed), Stop(300), how, grammar=grammar)
    chunks = list(engine.submit(request))
    out = engine.submit(request).result(60)
    assert "".join(chunk.text for chunk in chunks) == out.text
    assert not any("\ufffd" in chunk.text for chunk in chunks)
    assert [token for chunk in chunks for token in chunk.tokens] == out.tokens
    return out


@given(word=words, seed=st.integers(0, 99), how=st.sampled_from([None, "auto"]))
@example(word="東京 Zürich", seed=0, how="auto")
@example(word="🌍👩‍🚀", seed=0, how=None)
@example(word='a"b\\c/', seed=0, how="auto")
def test_a_word_that_a_grammar_demands_is_written_exactly(
    letters: Engine, word: str, seed: int, how: Any
) -> None:
    out = spoken(letters, Grammar.json_schema({"enum": [word]}), seed, how)
    assert json.loads(out.text) == word
    assert out.finish_reason == "stop"
    assert len(out.tokens) == len(out.text.encode())


def test_words_of_any_script_are_written_with_a_large_vocabulary(pocket: Engine) -> None:
    for seed, word in enumerate(("東京", "Ελλάδα", "🌍🌎", "мир и 世界", "naïve café")):
        out = spoken(pocket, Grammar.regex(f"{word}|{word}!+é"), seed, (None, "auto")[seed % 2])
        assert out.text.startswith(word)
        assert len(pocket.encode(out.text)) <= len(out.tokens) <= len(out.text.encode())
        assert any("\ufffd" in pocket.decode([token]) for token in out.tokens)
    classed = spoken(pocket, Grammar.regex("[ä-ü東-枠🌍]{12}"), 3, "auto")
    assert len(classed.text) == 12
    assert all("ä" <= c <= "ü" or "東" <= c <= "枠" or c == "🌍" for c in classed.text)


def test_json_object_gives_an_object(pocket: Engine) -> None:
    asked = Request("Say a thing.", stop=Stop(60), grammar=Grammar.json_object())
    requests = [replace(asked, sampling=Sampling(0.5, seed=seed)) for seed in range(12)]
    done = [ticket.result(60) for ticket in [pocket.submit(one) for one in requests]]
    ended = [json.loads(out.text) for out in done if out.finish_reason == "stop"]
    assert ended
    assert all(isinstance(one, dict) for one in ended)
    assert all(out.text.startswith("{") for out in done)


def test_a_text_that_is_too_long_is_cut(letters: Engine) -> None:
    out = letters.generate("q", grammar=Grammar.regex("(ab){40}"), stop=Stop(13))
    assert (out.text, out.finish_reason) == ("ab" * 6 + "a", "length")


def test_a_stop_string_ends_a_text_before_its_grammar_does(letters: Engine) -> None:
    grammar, stop = Grammar.regex("(ab){9}c"), Stop(99, ("ba", "c"))
    out = letters.generate("q", grammar=grammar, stop=stop)
    assert (out.text, out.finish_reason, out.stop_string) == ("a", "stop", "ba")
    out = letters.generate("q", grammar=grammar, stop=Stop(99, ("c",)))
    assert (out.text, out.stop_string) == ("ab" * 9, "c")


@dataclass(frozen=True, slots=True, eq=False)
class Likeliest(Formula):
    """A node of one's own that is no cut, and allows only the likeliest token."""

    of: Formula


@node_value.register
def evaluate_likeliest(node: Likeliest, at: Evaluation) -> Value:
    logprobs = at.logprobs(node.of)
    return Value(logprobs, 1.0, logprobs == logprobs.amax(dim=-1, keepdim=True))


def test_a_grammar_that_leaves_no_probability_fails_its_own_request(letters: Engine) -> None:
    likeliest = letters.next_logprobs("q", "M").topk(3).indices.tolist()
    others = [c for c in "abcdefgh" if letters.encode(c)[0] not in likeliest]
    asked = Request("q", sampling=Sampling(seed=1), stop=Stop(30))
    want = letters.submit(asked).result(60).tokens
    beside = letters.submit(asked)
    formula = Likeliest(marith.parse("M"))
    bad = Request("q", formula, grammar=Grammar.regex(f"[{''.join(others)}]+"))
    with pytest.raises(marith.FormulaError, match=r"no probability.*parts excludes them"):
        letters.submit(bad).result(60)
    assert beside.result(60).tokens == want


ENDLESS = {
    "grammar": {"grammar": Grammar.regex("[a-c]{2000}")},
    "tools": {"tools": Tools((tool("a", x={"type": "string", "pattern": "^[ab]{900}$"}),), "a")},
    "steered aside": {
        "tools": Tools((tool("a", x={"type": "string", "minLength": 900}),), "a", steer=False)
    },
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_cancelled_request_frees_its_lanes_within_a_step(kind: str) -> None:
    """A generator that is dropped, a task that is cancelled, and a request that takes too long."""
    model = tiny_model(vocab=speaker("hermes").size, seed=6, context_length=4000)
    with Engine.load(model, tokenizer=speaker("hermes").tokenizer) as engine:
        other = engine.submit(Request("q", stop=Stop(3900), grammar=Grammar.regex("[a-c]{3900}")))
        reader = iter(other)
        next(reader)
        terms = {"x": "q"}
        request = Request("q", "2*x - M", terms, stop=Stop(1500), logprobs=1, **ENDLESS[kind])

        stream = iter(engine.submit(request))
        next(stream)
        assert engine.status().lanes == 3
        del stream
        freed(engine)

        task = asyncio.create_task(finished(engine, request))
        while engine.status().lanes < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        freed(engine)

        with pytest.raises(marith.DeadlineExceeded):
            engine.submit(replace(request, timeout=0.05)).result(60)
        freed(engine)
        assert other._end is None
        reader.close()  # type: ignore[attr-defined]  # a generator, typed as an iterator


async def finished(engine: Engine, request: Request) -> marith.Completion:
    return await engine.submit(request)


def freed(engine: Engine) -> None:
    """After the step that runs and one more, only the other request's lane is held."""
    steps, end = engine.status().steps, time.monotonic() + 20
    while engine.status().steps < steps + 2 and time.monotonic() < end:
        time.sleep(0.0005)
    assert engine.status().lanes == 1
    assert lanes_in_use(engine) == 1


def test_without_an_end_token_grammars_are_refused_and_all_else_works() -> None:
    with endless_engine(128) as engine:
        for held in ({"grammar": Grammar.regex("[ab]{8}")}, {"tools": Tools((tool("a"),))}):
            with pytest.raises(marith.RequestError, match="need a model with an end-of-text token"):
                engine.submit(Request("a", **held))  # type: ignore[arg-type]
        out = engine.generate("a", sampling=Sampling(0.0), stop=Stop(5), logprobs=2)
        assert out.logprobs is not None
        assert "".join(one.text for one in out.logprobs) == out.text


def test_texts_that_the_vocabulary_cannot_write_are_refused() -> None:
    tokenizer = tiny_tokenizer()  # without a space
    with Engine.load(tiny_model(), tokenizer=tokenizer) as engine:
        with pytest.raises(marith.RequestError, match="cannot write"):
            engine.generate("a b", grammar=Grammar.regex("[xyz] [xyz]"))
        assert engine.generate("a b", grammar=Grammar.regex("[xyz]{2}")).finish_reason == "stop"
