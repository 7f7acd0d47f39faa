"""Requests that front ends with a panel for negative prompts send have the formula's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch
from support.http_server import client, events, served

from marith import Engine, Options, Prompted, parse
from marith.serving.server import Server

PERSONAS = """
[terms]
rude = "You are rude."
[formulas]
calm = "1.2*M - 0.4*rude"
"""
# A transcript, and the same transcript with the text of the panel one message before its end.
STORY = "A talk of two friends.\nAnna: Good morning!\nBen:"
NEGATIVE = "A talk of two friends.\nBen is rude.\nAnna: Good morning!\nBen:"
# SillyTavern, public/scripts/textgen-settings.js of commit 91f31e74, with the values by default and
# the type "ooba". src/endpoints/backends/text-completions.js passes all fields to /v1/completions.
SILLY_TAVERN: dict[str, Any] = {
    "prompt": STORY, "model": "calm", "max_new_tokens": 9, "max_tokens": 9, "temperature": 0.7,
    "top_p": 0.5, "typical_p": 1, "typical": 1, "sampler_seed": 3, "min_p": 0,
    "repetition_penalty": 1.2, "frequency_penalty": 0, "presence_penalty": 0, "top_k": 40,
    "min_length": 0, "min_tokens": 0, "num_beams": 1, "length_penalty": 1, "early_stopping": False,
    "add_bos_token": True, "dynamic_temperature": False, "dynatemp_low": 1, "dynatemp_high": 1,
    "dynatemp_range": 0, "dynatemp_exponent": 1, "smoothing_factor": 0,
    "stopping_strings": ["\nAnna:"], "stop": ["\nAnna:"], "truncation_length": 2048,
    "ban_eos_token": False, "skip_special_tokens": True, "top_a": 0, "tfs": 1, "epsilon_cutoff": 0,
    "eta_cutoff": 0, "mirostat_mode": 0, "mirostat_tau": 5, "mirostat_eta": 0.1,
    "custom_token_bans": "", "api_type": "ooba", "api_server": "http://127.0.0.1:8000/",
    "legacy_api": False, "rep_pen": 1.2, "rep_pen_range": 0, "repetition_penalty_range": 0,
    "encoder_repetition_penalty": 1, "no_repeat_ngram_size": 0, "penalty_alpha": 0,
    "temperature_last": True, "do_sample": True, "seed": 3, "grammar_string": "",
    "repeat_penalty": 1.2, "tfs_z": 1, "repeat_last_n": 0, "n_predict": 9, "mirostat": 0,
    "ignore_eos": False,
}  # fmt: skip
# The same file has these values while its panel is empty.
UNGUIDED = {"guidance_scale": 1, "negative_prompt": ""}
# public/script.js of commit 736223a8: while the scale is not 1, `negative_prompt` is the whole
# prompt with the panel's negative text.
GUIDED = {"guidance_scale": 1.5, "negative_prompt": NEGATIVE}
# SillyTavern's "Custom (OpenAI-compatible)", src/endpoints/backends/chat-completions.js of commit
# b5887960. It has no field for guidance, but a user may add `marith` to the body as YAML.
CUSTOM: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Good morning!"}], "model": "calm", "temperature": 1,
    "max_tokens": 9, "presence_penalty": 0, "frequency_penalty": 0, "top_p": 1, "top_k": 0,
    "stop": ["\nAnna:"], "logit_bias": {}, "seed": 3, "n": 1,
}  # fmt: skip
# Kobold Lite with an OpenAI-compatible endpoint, embd_res/klite.embd of KoboldCpp's commit
# b261d74c, with its settings "non-standard fields" and "custom sampler fields".
KOBOLD_LITE: dict[str, Any] = {
    "max_tokens": 9, "model": "calm", "temperature": 0.75, "top_p": 0.92, "seed": 3, "n": 1,
    "max_context_length": 8192, "max_length": 9, "rep_pen": 1.07, "top_k": 100, "top_a": 0,
    "typical": 1, "tfs": 1, "rep_pen_range": 360, "rep_pen_slope": 0.7,
    "sampler_order": [6, 0, 1, 3, 4, 2, 5], "sampler_seed": 3, "presence_penalty": 0.07,
    "logit_bias": {}, "prompt": STORY, "stop": ["\nAnna:"],
}  # fmt: skip
# A client of text-generation-webui's API: fields of `CompletionRequest`, modules/api/typing.py of
# commit 2dad2039, some with the values by default.
TEXTGEN: dict[str, Any] = {
    "prompt": STORY, "model": "calm", "max_tokens": 9, "temperature": 1, "top_p": 0.9, "seed": 3,
    "preset": None, "min_p": 0, "top_k": 20, "repetition_penalty": 1.15, "best_of": 1,
    "n": 1, "suffix": None, "echo": False, "user": None, "stream_options": None,
    "typical_p": 1, "tfs": 1, "top_a": 0, "truncation_length": 0, "custom_token_bans": "",
    "grammar_string": "", "skip_special_tokens": True, "do_sample": True,
}  # fmt: skip
TEXTS = {"SillyTavern": SILLY_TAVERN, "Kobold Lite": KOBOLD_LITE, "text-generation-webui": TEXTGEN}
SETTINGS = "temperature", "top_p", "min_p", "top_k", "repetition_penalty", "presence_penalty"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("front_ends")
    with served(folder, personas=PERSONAS, allow_formulas=True) as server:
        yield server


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Options().engine()


def both(web: httpx.Client, path: str, body: dict[str, Any]) -> str:
    """Return the text of an answer, which must be the same whole and in a stream."""
    whole = web.post(path, json=body)
    assert whole.status_code == 200, whole.text
    streamed = web.post(path, json={**body, "stream": True})
    assert streamed.status_code == 200, streamed.text
    choices = [event["choices"][0] for event in events(streamed.text) if event["choices"]]
    chat = "chat" in path
    parts = [one["delta"].get("content") if chat else one["text"] for one in choices]
    choice = whole.json()["choices"][0]
    text = choice["message"]["content"] if chat else choice["text"]
    assert "".join(filter(None, parts)) == text
    return str(text)


def wanted(engine: Engine, formula: str, body: dict[str, Any]) -> str:
    """Return the text of a formula in which `calm` has the weight 1, and N the negative prompt."""
    terms = {
        "calm": parse("1.5*M - 0.5*rude", {"rude": "You are rude."}),
        "N": Prompted(NEGATIVE, mode="whole"),
    }
    settings = {name: body[name] for name in SETTINGS if name in body}
    prompt = engine.encode(body["prompt"], start=True) if "prompt" in body else body["messages"]
    if not settings.get("top_k"):
        settings.pop("top_k", None)
    stop = {"seed": 3, "max_tokens": 9, "stop": ["\nAnna:"] if "stop" in body else []}
    return engine.generate(prompt, formula, terms, **settings, **stop).text


@pytest.mark.parametrize("front_end", TEXTS)
def test_a_front_ends_negative_prompt_takes_the_prompts_place(
    web: httpx.Client, engine: Engine, front_end: str
) -> None:
    """With the values of an empty panel, the answer is the model's own."""
    body = TEXTS[front_end]
    plain = both(web, "/v1/completions", {**body, **UNGUIDED})
    assert plain == both(web, "/v1/completions", body) == wanted(engine, "calm", body)
    guided = both(web, "/v1/completions", {**body, **GUIDED})
    assert guided == wanted(engine, "N + 1.5*(calm - N)", body)
    assert guided != plain


def test_a_client_sees_the_recipe_and_is_warned_of_large_factors(web: httpx.Client) -> None:
    body = {"prompt": STORY, "model": "calm", "max_tokens": 2, "marith": {"inspect": True}}
    guidance = {**GUIDED, "guidance_scale": 3}
    told = web.post("/v1/completions", json={**body, **guidance}).json()["marith"]
    away = f'prompted({json.dumps(NEGATIVE)}, mode="whole")'
    calm = "1.25*(1.2*M - 0.4*rude)"
    assert told["inspection"][0]["formula"] == f"{away} + 3*({calm} - {away})"
    [warning] = told["warnings"]
    assert "M counts 4.5 times; beyond 2.5 times" in warning


def test_a_whole_text_guides_as_in_the_paper(engine: Engine) -> None:
    """Sanchez et al. (2023, equation 5), over the tokens of two texts that are read separately."""
    read = {text: engine.encode(text, start=True) for text in (STORY, NEGATIVE)}
    of = {text: engine.next_logprobs(tokens, "M") for text, tokens in read.items()}
    want = torch.log_softmax(of[NEGATIVE] + 1.5 * (of[STORY] - of[NEGATIVE]), dim=-1)
    terms = {"N": Prompted(NEGATIVE, mode="whole")}
    got = engine.next_logprobs(read[STORY], "negative_prompt(M, N, 1.5)", terms)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(got, of[STORY], atol=0.1)


def test_a_chat_of_a_front_end_has_the_personas_answer(web: httpx.Client, engine: Engine) -> None:
    assert both(web, "/v1/chat/completions", CUSTOM) == wanted(engine, "calm", CUSTOM)
    added = {"formula": "negative_prompt(M, rude)"}
    told = both(web, "/v1/chat/completions", {**CUSTOM, "marith": added})
    assert (
        told
        == engine.generate(
            CUSTOM["messages"], "1.5*M - 0.5*rude", {"rude": "You are rude."}, seed=3, max_tokens=9
        ).text
    )


@pytest.mark.parametrize(
    ("fields", "param", "problem"),
    [
        ({"guidance_scale": 2}, "negative_prompt", "guidance_scale 2.0 needs negative_prompt, a"),
        ({"negative_prompt": "x"}, "guidance_scale", "negative_prompt needs guidance_scale, such"),
        ({**GUIDED, "guidance_scale": 1e31}, "guidance_scale", "a finite number of at most 1e30"),
        (
            {**GUIDED, "echo": True, "logprobs": 1},
            "negative_prompt",
            "under the model alone; leave",
        ),
        ({**GUIDED, "negative_prompt": "x" * 200_000}, "negative_prompt", "at most 100,000"),
    ],
)
def test_guidance_that_cannot_be_followed_is_refused(
    web: httpx.Client, fields: dict[str, Any], param: str, problem: str
) -> None:
    refused = web.post("/v1/completions", json={"prompt": STORY, "max_tokens": 2, **fields})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param
    assert problem in error["message"]


@pytest.mark.parametrize("field", GUIDED)
def test_only_text_completions_take_a_negative_prompt(web: httpx.Client, field: str) -> None:
    chat = web.post("/v1/chat/completions", json={**CUSTOM, field: GUIDED[field]})
    assert chat.status_code == 400
    assert "write a formula such as negative_prompt(M, rude)" in chat.json()["error"]["message"]
    assert both(web, "/v1/chat/completions", {**CUSTOM, **UNGUIDED})
    scored = {"prompt": STORY, "continuation": " Hello!", field: GUIDED[field]}
    assert web.post("/v1/score", json=scored).json()["error"]["param"] == field


def test_a_server_without_formulas_refuses_a_negative_prompt(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with served(tmp_path_factory.mktemp("fixed")) as server, client(server) as web:
        body = {"prompt": STORY, "max_tokens": 2}
        assert web.post("/v1/completions", json={**body, **UNGUIDED}).status_code == 200
        refused = web.post("/v1/completions", json={**body, **GUIDED}).json()["error"]
        assert refused["code"] == "formulas_not_allowed"
        assert refused["param"] == "negative_prompt"
