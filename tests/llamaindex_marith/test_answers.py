"""What an answer has besides its text: reasoning, log-probabilities, the name of its formula."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.llamaindex_calls import CHATS, WAYS, Make, ask, text_of

import marith
from llamaindex_marith import Marith

each_way = pytest.mark.parametrize("way", WAYS)


@each_way
async def test_reasoning_stands_beside_the_text(thinking_dir: str, way: str) -> None:
    answers = await ask(Marith(model=thinking_dir, temperature=0), way)
    answer = answers[-1]
    assert text_of(answer) == "Good day."
    assert answer.additional_kwargs["reasoning"] == "A greeting."
    assert answer.raw["usage"]["reasoning_tokens"] > 0
    assert answer.additional_kwargs["total_tokens"] == answer.raw["usage"]["total_tokens"]
    if way in CHATS:
        blocks = [block for block in answer.message.blocks if block.block_type == "thinking"]
        assert [block.content for block in blocks] == ["A greeting."]
    if "stream" in way:
        deltas = [each.additional_kwargs.get("thinking_delta", "") for each in answers]
        assert "".join(deltas) == "A greeting."
        thoughts = [each.additional_kwargs.get("reasoning", "") for each in answers]
        assert len(set(thoughts)) > 3
        assert all(b.startswith(a) for a, b in zip(thoughts, thoughts[1:], strict=False))
        assert "".join(each.delta for each in answers) == "Good day."


@each_way
async def test_reasoning_is_limited(thinking_dir: str, way: str) -> None:
    model = Marith(model=thinking_dir, temperature=0, max_reasoning_tokens=1, steer_reasoning=False)
    thought = (await ask(model, way))[-1].additional_kwargs["reasoning"]
    assert thought
    assert "A greeting.".startswith(thought)
    assert len(thought) < len("A greeting.")


@each_way
async def test_an_answer_follows_the_grammar_of_its_call(make: Make, way: str) -> None:
    answer = (await ask(make(), way, grammar=marith.Grammar.regex("[xyz]{4}")))[-1]
    assert len(text_of(answer)) == 4
    assert set(text_of(answer)) <= set("xyz")
    assert answer.raw["finish_reason"] == "stop"
    with pytest.raises(marith.RequestError, match="grammar must be a Grammar, not 'x'"):
        await ask(make(model="/nowhere"), way, grammar="x")


@each_way
async def test_log_probabilities_are_the_engines(make: Make, way: str) -> None:
    model = make(max_tokens=6)
    truth = model.submit([{"role": "user", "content": "k l"}], logprobs=2).result().logprobs
    answer, plain = [(await ask(model, way, logprobs=count))[-1] for count in (2, None)]
    logprobs = answer.logprobs
    assert text_of(answer) == text_of(plain)
    assert plain.logprobs is None
    assert truth
    assert len(logprobs) == len(truth) > 3
    for place, token in zip(logprobs, truth, strict=True):
        own = place[0]
        assert (own.token, bytes(own.bytes)) == (token.text, token.data)
        assert own.logprob == pytest.approx(token.logprob, abs=1e-4)
        others = [other for other in token.top if other.token != token.token]
        assert [each.token for each in place[1:]] == [each.text for each in others]
        assert all(math.isfinite(each.logprob) for each in place)
    with pytest.raises(
        marith.RequestError, match="logprobs must be a whole number of at least 0, not True"
    ):
        await ask(make(model="/nowhere"), way, logprobs=True)


@each_way
async def test_an_answer_names_the_formula_of_a_file_that_gave_it(
    tiny_dir: str, tmp_path: Path, way: str
) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(
        f'[model]\nmodel = "{tiny_dir}"\nmax_tokens = 4\n[terms]\na = "a b c"\n'
        '[formulas]\nplain = "a"\nbent = "2*a - 0.5*M"\n'
    )
    model = Marith.from_file(path, "plain")
    assert model.metadata.model_name == model.to_payload()["model_name"] == "plain"
    assert "file" not in model.to_payload()
    assert model.to_payload()["formula"] == "a"
    assert (await ask(model, way))[-1].raw["model"] == "plain"
    assert (await ask(model, way, model="bent"))[-1].raw["model"] == "bent"
    assert (await ask(model, way, formula="M"))[-1].raw["model"] == tiny_dir


@each_way
async def test_an_inspected_answer_says_why_each_token_is_there(make: Make, way: str) -> None:
    plain, last = (await ask(make(), way))[-1], (await ask(make(inspect=2), way))[-1]
    assert "inspection" not in plain.raw
    inspection = marith.Inspection.from_json(json.dumps(last.raw["inspection"]))
    assert inspection.text == text_of(last) == text_of(plain)
    assert {len(position.top) for position in inspection.positions} == {2}
