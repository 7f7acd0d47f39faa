"""`create_app`, as other servers of ASGI serve it: hosts, origins and keys of its settings."""

from __future__ import annotations

import httpx
import pytest

from marith import MarithError
from marith.serving.app import create_app
from marith.serving.server_settings import ServerSettings

KEY, PAGE = "sk-env-key-1", "https://chat.example"


async def status(settings: ServerSettings, host: str, key: str = "", origin: str = "") -> int:
    """What an application whose models are not loaded answers: 503 where all else is right."""
    headers = {"host": host, "authorization": f"Bearer {key}"}
    headers |= {"origin": origin} if origin else {}
    transport = httpx.ASGITransport(create_app(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as web:
        return (await web.get("/v1/models", headers=headers)).status_code


async def test_without_settings_only_the_names_of_the_loopback_are_answered() -> None:
    for host in ("localhost:8000", "127.0.0.1", "[::1]:9"):
        assert await status(ServerSettings(), host) == 503
    assert await status(ServerSettings(), "models.example") == 421
    assert await status(ServerSettings(), "localhost", origin=PAGE) == 403


async def test_hosts_origins_and_keys_are_asked_for() -> None:
    settings = ServerSettings(
        keys=(KEY,),
        hosts=("Models.Example", "10.0.0.7", "fd00::7"),
        origins=(PAGE, "http://other.example:8080/"),
    )
    for host in ("models.example:8000", "10.0.0.7", "[fd00::7]:8000", "localhost"):
        assert await status(settings, host, KEY) == 503
        assert await status(settings, host) == 401
    assert await status(settings, "evil.example", KEY) == 421
    for origin in (PAGE, "http://other.example:8080"):
        assert await status(settings, "localhost", KEY, origin) == 503
    assert await status(settings, "localhost", KEY, "https://evil.example") == 403


@pytest.mark.parametrize("host", ["models.example", "10.0.0.7"])
def test_a_host_that_others_reach_needs_a_key(host: str) -> None:
    with pytest.raises(MarithError, match=rf"'{host}' can be reached by other machines"):
        create_app(ServerSettings(hosts=("localhost", host)))
