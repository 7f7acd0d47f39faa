"""Log-probabilities of `/v1/completions`: names of tokens, alternatives, and offsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import httpx
import pytest
from support.http_server import events, served

from marith import Engine, Options
from marith.serving.server import Server

TEXT = "The sea is wide"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("texts")) as server:
        yield server


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Options().engine()


def ask(web: httpx.Client, **body: Any) -> Any:
    answer = web.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


PARTS = "Crème brûlée 🍮, naïve 漢字 and 😀"


def test_an_echo_names_parts_of_characters_and_their_likeliest_alternatives(
    web: httpx.Client, engine: Engine
) -> None:
    tokens = engine.encode(PARTS)
    told = ask(web, prompt=tokens, echo=True, logprobs=1, max_tokens=1, temperature=0)
    logprobs = told["choices"][0]["logprobs"]
    scores = engine.submit_scoring(tokens[:1], tokens[1:]).result()
    columns = zip(logprobs["token_logprobs"][1:-1], logprobs["top_logprobs"][1:-1], strict=True)
    greedy = [number == max(top.values()) for number, top in columns]
    assert greedy == scores.likeliest
    assert any("bytes:" in name for top in logprobs["top_logprobs"][1:] for name in top)


def test_an_echo_has_as_many_alternatives_as_are_asked(web: httpx.Client, engine: Engine) -> None:
    tokens = engine.encode(PARTS)
    for count in (0, 1, 3, 5):
        asked = {"echo": True, "logprobs": count, "max_tokens": 1, "temperature": 0}
        told = ask(web, prompt=tokens, **asked)["choices"][0]["logprobs"]
        for place in range(1, len(tokens)):
            top, number = told["top_logprobs"][place], told["token_logprobs"][place]
            row = engine.next_logprobs(tokens[:place])
            wanted = {*row.topk(count).indices.tolist(), tokens[place]}
            assert sorted(top.values()) == pytest.approx(sorted(row[[*wanted]].tolist()), abs=1e-4)
            assert top[told["tokens"][place]] == number


def _named(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def test_a_part_of_a_character_is_named_by_its_bytes(web: httpx.Client, engine: Engine) -> None:
    """Each alternative has its own entry and number; an offset is one into the text."""
    text = "a 漢字 😀!"
    tokens = engine.encode(text)
    bias = {str(token): 100 for token in tokens}
    for stream in (False, True):
        body = {"prompt": TEXT, "logprobs": 5, "max_tokens": 30, "seed": 3, "logit_bias": bias}
        if stream:
            answer = web.post("/v1/completions", json={**body, "stream": True})
            choices = [piece["choices"][0] for piece in events(answer.text)]
            parts = [choice["logprobs"] for choice in choices]
            told = {name: [*chain(*(part[name] for part in parts))] for name in parts[0]}
            whole = "".join(choice["text"] for choice in choices)
        else:
            [choice] = ask(web, **body)["choices"]
            told, whole = choice["logprobs"], choice["text"]
        wanted = engine.generate(
            engine.encode(TEXT, start=True), seed=3, max_tokens=30, logprobs=5,
            logit_bias={int(token): 100.0 for token in bias},
        )  # fmt: skip
        assert wanted.logprobs is not None
        assert whole == wanted.text
        assert told["tokens"] == [_named(token.data) for token in wanted.logprobs]
        assert any(name.startswith("bytes:") for name in told["tokens"])
        for top, token in zip(told["top_logprobs"], wanted.logprobs, strict=True):
            numbers = {_named(each.data): each.logprob for each in (*token.top, token)}
            assert top == pytest.approx(numbers, abs=1e-4)
        _require_offsets(told, whole)


def test_offsets_of_an_echo_are_offsets_into_its_text(web: httpx.Client, engine: Engine) -> None:
    asked = {"echo": True, "logprobs": 1, "temperature": 0}
    for most in (0, 4):
        choice = ask(web, prompt=PARTS, max_tokens=most, **asked)["choices"][0]
        assert choice["text"].startswith(PARTS)
        _require_offsets(choice["logprobs"], choice["text"])


def test_offsets_count_a_character_that_is_never_completed(
    web: httpx.Client, engine: Engine
) -> None:
    pieces = engine.pieces(range(engine.vocabulary_size))
    broken = [token for token, (data, _) in enumerate(pieces) if data == b"\xf0\x9f"]
    tokens = [*broken, *engine.encode("ab c")]
    choice = ask(web, prompt=tokens, echo=True, logprobs=1, max_tokens=0)["choices"][0]
    assert "\ufffdab c" in choice["text"]
    _require_offsets(choice["logprobs"], choice["text"])
    bias = {str(token): 100 for token in (*broken, *engine.encode("ab c"))}
    asked = {"prompt": TEXT, "logprobs": 1, "max_tokens": 30, "logit_bias": bias}
    for seed in range(5):
        choice = ask(web, **asked, seed=seed)["choices"][0]
        _require_offsets(choice["logprobs"], choice["text"])


def test_no_offset_is_beyond_a_text_that_a_stop_string_cut(web: httpx.Client) -> None:
    asked = {"prompt": TEXT, "logprobs": 1, "max_tokens": 20, "temperature": 0}
    text = ask(web, **asked)["choices"][0]["text"]
    stop = text[5:8]
    choice = ask(web, **asked, stop=stop)["choices"][0]
    assert choice["text"] == text.partition(stop)[0]
    assert max(choice["logprobs"]["text_offset"]) <= len(choice["text"])
    pieces = events(web.post("/v1/completions", json={**asked, "stop": stop, "stream": True}).text)
    lists = [piece["choices"][0]["logprobs"]["text_offset"] for piece in pieces]
    assert [*chain(*lists)] == choice["logprobs"]["text_offset"]


def _require_offsets(logprobs: Any, text: str) -> None:
    """Each token stands where it says; parts of one character say where the character begins."""
    last = 0
    for name, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert last <= offset <= len(text)
        last = offset
        if not name.startswith(("bytes:", "<|")):
            assert text[offset:].startswith(name), (name, offset)
