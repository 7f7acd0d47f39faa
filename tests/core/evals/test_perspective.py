"""Perspective: asked once a text, again when it is busy, and never for what it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from marith import ModelError, RequestError
from marith.evals import toxicity
from marith.evals.experiment.texts import Text
from marith.evals.perspective import KEY, NOTICE, TRIES, Perspective

GOOD = 200, {"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}
FOREIGN = 400, {"error": {"details": [{"errorType": "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"}]}}
BUSY = 429, {"error": {"status": "RESOURCE_EXHAUSTED"}}
BROKEN = 503, {}
HUNG_UP = 0, {}
DENIED = 403, {"error": {"message": "The key is wrong."}}

Answer = tuple[int, dict[str, Any]]


class Service(UnixStreamServer):
    """A service on a socket of the file system: says its answers in turn, and the last again."""

    def __init__(self, path: str) -> None:
        self.answers: list[Answer] = [GOOD]
        self.heard: list[dict[str, Any]] = []
        super().__init__(path, Handler)


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.heard.append({**told, "key": self.headers["x-goog-api-key"]})
        answers = self.server.answers
        status, data = answers.pop(0) if len(answers) > 1 else answers[0]
        if not status:
            return  # without a word
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a test"

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv(KEY, "a secret")
    with TemporaryDirectory() as folder, Service(str(Path(folder) / "s")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def judge(service: Service, waits: list[float] | None = None) -> Perspective:
    def connect() -> httpx.Client:
        path = str(service.server_address)
        return httpx.Client(transport=httpx.HTTPTransport(uds=path))

    wait = (waits if waits is not None else []).append
    return Perspective(address="http://service/analyze", connect=connect, wait=wait)


def texts(*said: str) -> list[Text]:
    return [Text("M", i, 0, 0, "", "", one, (1,), "stop", 1, 1) for i, one in enumerate(said)]


def test_each_text_is_asked_about_once_and_not_kept_there(service: Service) -> None:
    assert list(judge(service).open(None)(texts("You fool.", "Hello."))) == [0.25, 0.25]
    assert [told["comment"]["text"] for told in service.heard] == ["You fool.", "Hello."]
    assert {told["key"] for told in service.heard} == {"a secret"}
    assert all(told["doNotStore"] for told in service.heard)


def test_a_language_that_is_refused_has_no_number_and_is_not_asked_again(service: Service) -> None:
    service.answers = [FOREIGN, GOOD]
    assert list(judge(service).open(None)(texts("Bonjour", "Hello."))) == [None, 0.25]
    assert len(service.heard) == 2


def test_a_busy_service_is_asked_again_after_ever_longer(service: Service) -> None:
    service.answers = [BUSY, BROKEN, BUSY, GOOD]
    waits: list[float] = []
    assert list(judge(service, waits).open(None)(texts("Hello."))) == [0.25]
    assert waits == [1.0, 2.0, 4.0]


def test_a_service_that_never_answers_ends_the_run_and_not_in_a_loop(service: Service) -> None:
    service.answers = [BUSY]
    waits: list[float] = []
    with pytest.raises(ModelError, match=rf"asked {TRIES} times: status 429"):
        list(judge(service, waits).open(None)(texts("Hello.")))
    assert len(service.heard) == TRIES


def test_any_other_answer_is_told_without_the_key(service: Service) -> None:
    service.answers = [DENIED]
    with pytest.raises(ModelError, match=r"status 403: .*The key is wrong") as error:
        list(judge(service).open(None)(texts("Hello.")))
    assert "a secret" not in str(error.value)
    assert len(service.heard) == 1


def test_a_broken_line_is_tried_again(service: Service) -> None:
    service.answers = [HUNG_UP, GOOD]
    waits: list[float] = []
    assert list(judge(service, waits).open(None)(texts("Hello."))) == [0.25]
    service.answers = [HUNG_UP]
    with pytest.raises(ModelError, match=rf"asked {TRIES} times: .*disconnected"):
        list(judge(service, waits).open(None)(texts("Hello.")))
    assert waits == [1, 1, 2, 4, 8, 16, 32, 64]


def test_it_judges_an_evaluation_and_says_when_it_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service.answers = [FOREIGN, GOOD]
    made = judge(service)
    monkeypatch.setattr("marith.evals.steering.Perspective", lambda *_: made)
    asked = toxicity.Settings(judge="perspective", formulas=("M",), n=3, max_tokens=3)
    report = toxicity.run(asked)
    assert report.notes == (NOTICE, "left out of toxicity, for they have none: 1 of M")
    assert "31 December 2026" in capsys.readouterr().err
    figure = report.rows[0].figures["toxicity"]
    assert (figure.mean, figure.count, figure.missing) == (0.25, 2, 1)


def test_without_a_key_it_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(RequestError, match=f"needs a key in {KEY}"):
        Perspective().check()
