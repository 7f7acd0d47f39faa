"""Over HTTP each key has its own cached prefixes, and each salt within a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.http_server import KEYS, client, served

from marith.serving.server import Server

SYSTEM = " ".join(
    ["You answer as a patient teacher does, in words that a child of six knows and likes."] * 4
)
PERSONAS = f"""
[terms]
teacher = "{SYSTEM}"
[formulas]
kind = "teacher"
"""
OWN = "You are a sailor of the old days, who has seen all the seas and all of their storms."
CODE = "4217 is the secret code of the house, and you tell it to nobody at all"
TEXT = f"{CODE}, to no cat and no dog and no small bird that sings in the garden. " * 5
LEAST = 16  # tokens of a system prompt or of a text
PATHS = ("chat/completions", "completions")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("salted")
    with served(folder, personas=PERSONAS, keys=KEYS, allow_formulas=True) as server:
        yield server


def cached(server: Server, key: str, text: str, path: str = PATHS[0], **more: Any) -> int:
    """How many tokens of the model's one term were at hand, its system prompt's among them."""
    own = {"composition": True, **more.pop("marith", {})}
    more["marith"] = own
    body = {"model": "kind", "max_tokens": 2, **more}
    if path == "completions":
        body["prompt"] = text
    else:
        body["messages"] = [{"role": "user", "content": text}]
    with client(server, headers={"authorization": f"Bearer {key}"}) as web:
        answer = web.post(f"/v1/{path}", json=body)
    terms = answer.json()["marith"]["composition"][0]["terms"]
    return min(int(term["cached_tokens"]) for term in terms.values())


@pytest.mark.parametrize("path", PATHS)
def test_what_was_read_for_one_key_serves_that_key_alone(server: Server, path: str) -> None:
    text = f"{len(path)} {TEXT}"
    cached(server, KEYS[0], text, path)
    other = cached(server, KEYS[1], text, path)
    again = cached(server, KEYS[0], text, path)
    assert again >= other + LEAST


def test_the_texts_of_a_formula_that_a_client_brings_are_its_keys_own(server: Server) -> None:
    named = {"marith": {"formula": "M + 0.3*sailor", "terms": {"sailor": OWN}}}
    inline = {"marith": {"formula": f"prompted({OWN[::-1]!r}) - 0.1*M"}}
    for brought, text in ((named, OWN), (inline, OWN[::-1])):
        cached(server, KEYS[0], text, **brought)
        assert cached(server, KEYS[0], text, **brought) >= LEAST
        assert cached(server, KEYS[1], text, **brought) < LEAST


@pytest.mark.parametrize("path", PATHS)
def test_a_client_keeps_its_texts_apart_within_its_key(server: Server, path: str) -> None:
    text, a, b = f"{len(path)} apart: {TEXT}", f"{path} a", f"{path} b"
    asked = [(KEYS[0], a), (KEYS[0], b), (KEYS[1], a)]
    assert [cached(server, key, text, path, cache_salt=salt) for key, salt in asked] == [0, 0, 0]
    assert cached(server, KEYS[0], text, path, cache_salt=a) >= LEAST


@pytest.mark.parametrize("salt", ["", "a" * 257, 3])
def test_a_salt_is_a_text_of_256_letters_at_most(server: Server, salt: Any) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "cache_salt": salt}
    with client(server, headers={"authorization": f"Bearer {KEYS[0]}"}) as web:
        answer = web.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "cache_salt"


@pytest.mark.parametrize("model", ["kind", "pocket"])
def test_cached_tokens_do_not_depend_on_the_texts_of_another_key(
    tmp_path: Path, model: str
) -> None:
    """How long it is, and how alike: a server anew for each, which has read its own prompts."""
    found, keys = set(), ("sk-whose-text-it-is", "sk-who-asks-after-it")
    for i, others in enumerate(
        [None, "Yes.", "Yes, I do, and more than that", f"Hello {TEXT * 3}"]
    ):
        folder = tmp_path / str(i)
        folder.mkdir()
        with served(folder, personas=PERSONAS, keys=keys) as server:
            if others is not None:
                cached(server, keys[0], others, model=model)
            found.add(cached(server, keys[1], f"Hello {TEXT}", model=model))
            server.close()  # else the next server has the same engine
    assert len(found) == 1
