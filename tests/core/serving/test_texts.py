"""Completions of plain text, tokens, scores, and metrics of a server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_server import CHAT, client, events, served, wait_until
from support.pauses import Pause, pausing

from marith import Ban, Engine, Options, Plan, Prompted
from marith.serving.server import Server
from marith.serving.server_settings import ServingLimits

FORMULA, TERMS = "M - 0.5*rude + 0.3*kind", {"rude": "You are rude.", "kind": "You are kind."}
TEXT = "The sea is wide"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("texts"), allow_formulas=True) as server:
        yield server


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Options().engine()


def ask(web: httpx.Client, path: str = "/v1/completions", **body: Any) -> Any:
    answer = web.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("model", ["pocket", "polite"])
def test_a_text_is_continued_as_it_is(web: httpx.Client, engine: Engine, model: str) -> None:
    tokens = engine.encode(TEXT, start=True)
    formula = (FORMULA, TERMS) if model == "polite" else ("M", None)
    wanted = engine.generate(tokens, *formula, seed=2, max_tokens=9)
    for prompt in (TEXT, tokens, [TEXT], [tokens]):
        told = ask(web, model=model, prompt=prompt, seed=2, max_tokens=9)
        assert told["choices"][0]["text"] == wanted.text
        assert told["object"] == "text_completion"
    body = {"model": model, "prompt": TEXT, "seed": 2, "max_tokens": 9, "stream": True}
    pieces = events(web.post("/v1/completions", json=body).text)
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == wanted.text


def test_many_prompts_have_choices_in_order(web: httpx.Client) -> None:
    prompts = [TEXT, "A dog", "It is late"]
    told = ask(web, prompt=prompts, temperature=0, max_tokens=4, n=2, echo=True)
    alone = [ask(web, prompt=one, max_tokens=1)["usage"]["prompt_tokens"] for one in prompts]
    assert told["usage"]["prompt_tokens"] == sum(alone)
    assert [choice["index"] for choice in told["choices"]] == [*range(6)]
    for i, prompt in enumerate(prompts):
        assert told["choices"][2 * i]["text"].startswith(prompt)


def test_more_answers_than_a_key_may_have_are_refused_for_good(
    server: Server, web: httpx.Client
) -> None:
    bodies = {"prompt": {"prompt": [TEXT] * 40, "n": 2}, "n": {"prompt": TEXT, "n": 17}}
    for param, body in bodies.items():
        refused = web.post("/v1/completions", json={**body, "max_tokens": 1})
        assert refused.status_code == 400
        assert refused.headers["x-should-retry"] == "false"
        assert refused.json()["error"]["param"] == param
    assert server.running == 0
    whole = ask(web, prompt=[TEXT] * 32, n=2, max_tokens=1)
    assert len(whole["choices"]) == 64


def test_an_echo_has_the_log_probabilities_of_the_prompt(web: httpx.Client, engine: Engine) -> None:
    tokens = engine.encode(TEXT, start=True)
    told = ask(web, prompt=tokens, echo=True, logprobs=1, max_tokens=1, temperature=0)
    logprobs = told["choices"][0]["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    wanted = engine.score(tokens[:1], tokens[1:])
    assert logprobs["token_logprobs"][1:-1] == pytest.approx(wanted, abs=1e-4)
    assert len({len(column) for column in logprobs.values()}) == 1
    best = engine.submit_scoring(tokens[:1], tokens[1:]).result().likeliest
    for token, number, top, likeliest in zip(
        logprobs["tokens"][1:-1], logprobs["token_logprobs"][1:-1],
        logprobs["top_logprobs"][1:-1], best, strict=True,
    ):  # fmt: skip
        assert top[token] == number
        assert (max(top.values()) == number) is likeliest


def test_an_echo_with_max_tokens_0_generates_no_token(web: httpx.Client, engine: Engine) -> None:
    told = ask(web, prompt="héllo 😀 wörld", echo=True, logprobs=1, max_tokens=0)
    assert told["choices"][0]["text"] == "héllo 😀 wörld"
    assert told["usage"]["completion_tokens"] == 0
    offsets = told["choices"][0]["logprobs"]["text_offset"]
    assert offsets == sorted(offsets)
    assert offsets[-1] <= len("héllo 😀 wörld")
    assert web.post("/v1/completions", json={"prompt": "a", "max_tokens": 0}).status_code == 400


def test_an_echo_has_one_token_after_it_where_the_text_ends_at_once(
    web: httpx.Client, engine: Engine
) -> None:
    """Harnesses leave the last column out: it is never one of the prompt."""
    tokens = engine.encode("Name a river and say something about it.")
    asked = {"prompt": tokens, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    told = ask(web, **asked)["choices"][0]
    assert told["finish_reason"] == "stop"
    assert {len(column) for column in told["logprobs"].values()} == {len(tokens) + 1}
    assert told["logprobs"]["tokens"][-1] == web.get("/tokenizer_info").json()["eos_token"]
    wanted = engine.score(tokens[:1], [*tokens[1:], *engine.end_tokens])
    assert told["logprobs"]["token_logprobs"][1:] == pytest.approx(wanted, abs=1e-4)


def test_scores_are_the_engines(web: httpx.Client, engine: Engine) -> None:
    told = ask(web, "/v1/score", model="polite", messages=CHAT, continuation="They are kind.")
    wanted = engine.score(CHAT, "They are kind.", FORMULA, TERMS)
    assert told["logprobs"] == pytest.approx(wanted, abs=1e-4)
    assert told["sum"] == pytest.approx(math.fsum(wanted), abs=1e-3)
    by_tokens = ask(web, "/v1/score", prompt=[5, 6], continuation=[7, 8])
    assert len(by_tokens["logprobs"]) == 2


@pytest.mark.parametrize("model", ["pocket", "polite"])
def test_a_text_is_scored_as_a_chat_or_as_plain_text_in_python_and_over_http(
    web: httpx.Client, engine: Engine, model: str
) -> None:
    """A text is a chat's message in Python, and text as it stands over HTTP."""
    formula = (FORMULA, TERMS) if model == "polite" else ("M", None)

    def over_http(**prompt: Any) -> list[float]:
        answer = ask(web, "/v1/score", model=model, continuation=" and blue", **prompt)
        return pytest.approx(answer["logprobs"], abs=1e-4)

    chat = engine.score(TEXT, " and blue", *formula)
    assert chat == over_http(messages=[{"role": "user", "content": TEXT}])
    stands = engine.score(engine.encode(TEXT, start=True), " and blue", *formula)
    assert stands == over_http(prompt=TEXT)
    assert stands != pytest.approx(chat, abs=0.1)
    if model == "pocket":
        plain = engine.score(TEXT, " and blue", terms={"M": Prompted(template="plain")})
        assert plain == pytest.approx(stands, abs=1e-4)


def test_a_score_is_of_a_text_or_of_a_chat(web: httpx.Client) -> None:
    for given in ({}, {"prompt": TEXT, "messages": CHAT}):
        refused = web.post("/v1/score", json={**given, "continuation": "."})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
        message = refused.json()["error"]["message"]
        assert "either prompt (a text) or messages (a chat)" in message


def test_formulas_come_over_the_wire_where_they_may(web: httpx.Client, engine: Engine) -> None:
    own = {"formula": "M + 0.5*calm", "terms": {"calm": "You are calm."}}
    told = ask(web, "/v1/chat/completions", messages=CHAT, seed=1, max_tokens=8, marith=own)
    wanted = engine.generate(CHAT, *own.values(), seed=1, max_tokens=8)
    assert told["choices"][0]["message"]["content"] == wanted.text
    for formula in (
        'ngram("/etc/passwd")', 'M + prompted(model="owner/other")', 'prompted(adapter="x")',
        'prompted(vectors={"x.gguf": 1})',
        'classifier("pocket-toxicity", label="toxic")', "M + " * 900 + "M",
    ):  # fmt: skip
        body = {"messages": CHAT, "marith": {"formula": formula}}
        refused = web.post("/v1/chat/completions", json=body)
        assert refused.status_code == 400, formula
        assert refused.json()["error"]["code"] == "invalid_formula"


def test_tokens_and_texts_become_each_other(web: httpx.Client, engine: Engine) -> None:
    told = ask(web, "/tokenize", prompt=TEXT)
    assert told["tokens"] == engine.encode(TEXT, start=True)
    assert told["max_model_len"] == engine.context_length
    bare = ask(web, "/tokenize", prompt=TEXT, add_special_tokens=False)["tokens"]
    assert ask(web, "/detokenize", tokens=bare)["prompt"] == TEXT
    assert ask(web, "/tokenize", messages=CHAT)["count"] == engine.count_tokens(CHAT)
    assert web.post("/detokenize", json={"tokens": [10**6]}).status_code == 400
    info = web.get("/tokenizer_info").json()
    assert info["eos_token_id"] in engine.end_tokens
    for name in ("bos_token", "eos_token"):  # a harness asks for their numbers by their names
        asked = {"prompt": info[name], "add_special_tokens": False}
        assert ask(web, "/tokenize", **asked)["tokens"] == [info[f"{name}_id"]]
    inside = ask(web, "/tokenize", prompt=f"{info['eos_token']}!")["tokens"]
    assert info["eos_token_id"] not in inside


def test_a_text_begins_with_the_system_prompt_and_not_with_a_token_after_it(
    web: httpx.Client, engine: Engine
) -> None:
    start = web.get("/tokenizer_info").json()["bos_token_id"]
    tokens = engine.encode(TEXT)
    asked = {"model": "polite", "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    told = ask(web, prompt=[start, *tokens], **asked)["choices"][0]["logprobs"]
    plain = {name: Prompted(prompt, template="plain") for name, prompt in TERMS.items()}
    wanted = engine.score("", TEXT, FORMULA, {**plain, "M": Prompted(template="plain")})
    assert told["token_logprobs"][1:-1] == pytest.approx(wanted, abs=1e-4)


def test_models_are_the_base_and_its_formulas(web: httpx.Client) -> None:
    listed = web.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["pocket", "polite"]
    assert listed[1]["parent"] == "pocket"
    assert web.get("/v1/models/polite").json() == listed[1]
    assert web.get("/v1/models/none").status_code == 404


def test_every_metric_is_counted(server: Server, web: httpx.Client) -> None:
    def counts() -> dict[str, float]:
        lines = web.get("/metrics").text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    before = counts()
    ask(web, "/v1/chat/completions", messages=CHAT, seed=1, max_tokens=12, model="polite",
        marith={"ban": ["the", "a", "to"]})  # fmt: skip
    body = {"messages": CHAT, "model": "polite", "stream": True, "max_tokens": 12, "temperature": 0}
    web.post("/v1/chat/completions", json=body)
    web.post("/v1/chat/completions", json={})
    web.post("/v1/completions", json={"prompt": "Go, go, go, go, go, go,", "model": "polite",
        "max_tokens": 40, "temperature": 0, "ignore_eos": True})  # fmt: skip
    wait_until(lambda: counts()["marith_num_requests_running"] == 0)
    long = {**body, "max_tokens": 400, "ignore_eos": True}
    with web.stream("POST", "/v1/chat/completions", json=long) as answer:
        lines = answer.iter_lines()
        next(lines)
        with client(server) as other:  # while it runs
            wait_until(lambda: "marith_lanes_in_flight 3.0" in other.get("/metrics").text)
            told = other.get("/metrics").text
        assert "marith_num_requests_running 1.0" in told
    after = counts()
    named = '{model_name="polite"}'
    for name in (
        "prompt_tokens", "generation_tokens", "passes", "time_to_first_token_seconds_count",
        "inter_token_latency_seconds_count", "e2e_request_latency_seconds_count",
        "prefix_cache_hits",
    ):  # fmt: skip
        total = name if name.endswith("count") else f"{name}_total"
        key = f"marith_{total}{named}"
        assert after[key] > before.get(key, 0), name
    failed = 'marith_request_failure_total{status="400"}'
    assert after[failed] > before.get(failed, 0)
    reason = 'marith_request_success_total{finished_reason="length",model_name="polite"}'
    assert after[reason] > before.get(reason, 0)


def test_drafts_and_rewinds_are_counted(server: Server, engine: Engine, web: httpx.Client) -> None:
    ban = Ban(["e"], whole_words=False)
    drafted = engine.generate(
        CHAT, FORMULA, TERMS, speculation=Plan({"rude": 3, "kind": 3}), max_tokens=30, seed=1
    )
    banned = engine.generate(CHAT, FORMULA, TERMS, ban=ban, max_tokens=9, seed=1)
    for completion in (drafted, banned):
        server.metrics.completed("counted", completion, 0.0)
    told = web.get("/metrics").text
    for name, wanted in (
        ("drafted_tokens", drafted.stats.drafted), ("accepted_tokens", drafted.stats.accepted),
        ("rewinds", banned.stats.rewinds),
    ):  # fmt: skip
        assert wanted > 0
        assert f'marith_{name}_total{{model_name="counted"}} {float(wanted)}' in told


def test_pauses_are_counted_when_they_happen_and_if_the_request_is_cancelled(
    server: Server, web: httpx.Client
) -> None:
    def told(other: httpx.Client) -> float:
        [line] = [
            line for line in other.get("/metrics").text.splitlines()
            if line.startswith("marith_num_preemptions_total ")
        ]  # fmt: skip
        return float(line.split()[1])

    [engine] = server.engines()
    before = told(web)
    assert before == engine.status().paused
    body = {"messages": CHAT, "stream": True, "max_tokens": 400, "ignore_eos": True}
    with pausing(engine, [Pause(frozenset())] * 2 + [Pause(frozenset({0}))] * 3):
        with web.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            with client(server) as other:  # while it runs
                wait_until(lambda: told(other) == before + 3)
                assert not engine.status().idle
        wait_until(lambda: engine.status().idle)
    assert told(web) == before + 3 == engine.status().paused


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("options", [None, {"include_usage": True}])
def test_a_limit_beyond_the_context_is_said_whole_and_streamed(
    path: str, options: Any, tmp_path: Path
) -> None:
    personas = '[model]\ncontext_length = 30\n[formulas]\nplain = "M"\n'
    body = {"model": "plain", "max_tokens": 100_000, "messages": CHAT, "prompt": "Hi."}
    body = {k: v for k, v in body.items() if k != ("prompt" if "chat" in path else "messages")}
    with served(tmp_path, personas=personas) as server, client(server) as web:
        whole = web.post(path, json=body).json()
        streamed = web.post(path, json={**body, "stream": True, "stream_options": options})
    for answer in (whole, events(streamed.text)[-1]):
        [warning] = answer["marith"]["warnings"]
        assert "max_tokens is 100000, but the context has room for" in warning


def test_of_two_limits_the_smaller_is_said_for_the_number_that_the_client_wrote(
    tmp_path: Path,
) -> None:
    personas = '[model]\ncontext_length = 30\n[formulas]\nplain = "M"\n'
    body = {"model": "plain", "messages": CHAT, "ignore_eos": True}
    with served(tmp_path, ServingLimits(tokens=29), personas) as server, client(server) as web:
        cut, silent = (
            web.post("/v1/chat/completions", json={**body, **most}).json()
            for most in ({"max_completion_tokens": 99_999}, {})
        )
    [warning] = cut["marith"]["warnings"]
    assert "max_tokens is 99999, but the context has room for" in warning
    assert "marith" not in silent
