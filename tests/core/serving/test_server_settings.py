"""`create_app` with no arguments, as other servers of ASGI call it: what the environment says."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from marith import MarithError
from marith.serving.app import create_app
from marith.serving.server_settings import settings_of_environment

KEY, PAGE = "sk-env-key-1", "https://chat.example"


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FILE", "API_KEYS", "HOSTS", "ORIGINS"):
        monkeypatch.delenv(f"MARITH_{name}", raising=False)


async def status(host: str, key: str = "", origin: str = "") -> int:
    """What an application whose models are not loaded answers: 503 where all else is right."""
    headers = {"host": host, "authorization": f"Bearer {key}"}
    headers |= {"origin": origin} if origin else {}
    transport = httpx.ASGITransport(create_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as web:
        return (await web.get("/v1/models", headers=headers)).status_code


async def test_without_settings_only_the_names_of_the_loopback_are_answered() -> None:
    for host in ("localhost:8000", "127.0.0.1", "[::1]:9"):
        assert await status(host) == 503
    assert await status("models.example") == 421
    assert await status("localhost", origin=PAGE) == 403


async def test_hosts_origins_and_keys_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "marith.toml")
    monkeypatch.setenv("MARITH_FILE", file)
    monkeypatch.setenv("MARITH_API_KEYS", KEY)
    monkeypatch.setenv("MARITH_HOSTS", "Models.Example, 10.0.0.7,, fd00::7")
    monkeypatch.setenv("MARITH_ORIGINS", f"{PAGE}, http://other.example:8080/")
    assert settings_of_environment().file == Path(file)
    for host in ("models.example:8000", "10.0.0.7", "[fd00::7]:8000", "localhost"):
        assert await status(host, KEY) == 503
        assert await status(host) == 401
    assert await status("evil.example", KEY) == 421
    for origin in (PAGE, "http://other.example:8080"):
        assert await status("localhost", KEY, origin) == 503
    assert await status("localhost", KEY, "https://evil.example") == 403


@pytest.mark.parametrize("host", ["models.example:8000", "https://models.example", "*", "a b"])
def test_a_host_that_is_no_name_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("MARITH_API_KEYS", KEY)
    monkeypatch.setenv("MARITH_HOSTS", f"good.example,{host}")
    with pytest.raises(MarithError, match=r"HOSTS has .* without scheme and port") as refused:
        create_app()
    assert repr(host) in str(refused.value)


@pytest.mark.parametrize("origin", ["chat.example", "*", "https://chat.example/page", "null"])
def test_an_origin_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    monkeypatch.setenv("MARITH_ORIGINS", origin)
    with pytest.raises(MarithError, match=r"MARITH_ORIGINS has .* write https://chat.example"):
        create_app()


@pytest.mark.parametrize("host", ["models.example", "10.0.0.7"])
def test_a_host_that_others_reach_needs_a_key(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("MARITH_HOSTS", f"localhost, {host}")
    with pytest.raises(MarithError, match=rf"'{host}' is an address that others reach"):
        create_app()
