"""HTTP itself: limits of headers, invalid bytes, and two lengths of one body."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.http_server import BEARER, JSON, lanes

from marith.serving.guard import HEADER_BYTES
from marith.serving.server import Server

ASKED = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


def answered(
    server: Server, *packets: bytes, more: Iterable[bytes] = (), hurry: bool = False
) -> bytes:
    """What comes back until the server closes; the end of an answer may be lost with a reset.

    A client in a `hurry` leaves a server that does not answer soon.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.05 if hurry else 20)
        client.connect(str(server.socket))  # type: ignore[attr-defined]
        try:
            for packet in chain(packets, more):
                client.sendall(packet)
        except OSError:  # closed already: the answer is there to be read
            pass
        parts = [b""]
        with suppress(ConnectionResetError, *[TimeoutError] * hurry):  # with what was not read
            while part := client.recv(65_536):
                parts.append(part)
    return b"".join(parts)


def header(letters: int) -> bytes:
    return b"x-long: " + b"a" * letters + b"\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (header(30_000), 200),
        (header(33_000), 431),
        (header(1000) * 30, 200),
        (header(1000) * 33, 431),
        (b"".join(b"x-%d: a\r\n" % i for i in range(9000)), 431),
    ],
    ids=range(5),
)
def test_too_long_headers_are_refused(server: Server, head: bytes, status: int) -> None:
    answer = answered(server, ASKED + head + b"connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("path", [b"/", b"/health?"])
def test_too_long_addresses_are_refused(server: Server, path: bytes) -> None:
    path += b"a" * (HEADER_BYTES + 1)
    start = b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert answered(server, start).startswith(b"HTTP/1.1 431 ")


def test_a_header_without_an_end_is_not_waited_for(server: Server) -> None:
    endless = (b"a" * 8192 for _ in range(100))
    answer = answered(server, ASKED + b"x-long: ", more=endless)
    assert answer.startswith(b"HTTP/1.1 400 ") or not answer
    assert next(endless, None) is not None, "it was closed before all had come"


def test_a_header_without_an_end_behind_a_request_is_not_waited_for_either(server: Server) -> None:
    endless = (b"a" * 8192 for _ in range(100))
    answer = answered(server, ASKED + b"\r\n" + ASKED + b"x-long: ", more=endless)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert next(endless, None) is not None, "it was closed before all had come"


def test_a_body_in_the_same_packet_is_no_header(server: Server) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "a"}], "pad": "a" * 150_000})
    given = {**JSON, **BEARER, "content-length": str(len(body)), "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    start = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    whole = f"{start}{lines}\r\n{body}".encode()
    assert answered(server, whole).startswith(b"HTTP/1.1 200 ")
    assert answered(server, whole[:50], whole[50:]).startswith(b"HTTP/1.1 200 ")


WHOLE = b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + b"".join(
    f"{name}: {value}\r\n".encode() for name, value in {**JSON, **BEARER}.items()
)
BODY = b'content-length: 15\r\n\r\n{"prompt": "a"}'
EXAMPLES = 150 if settings.get_current_profile_name() == "ci" else 10_000


@st.composite
def wires(draw: st.DrawFn) -> bytes:
    """Any bytes, or a request of which some are lost, others, or come twice."""
    wire = bytearray(WHOLE + BODY)
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(wire)))
        odd = draw(st.one_of(st.binary(max_size=9), st.sampled_from(ODD)))
        wire[at : at + draw(st.integers(0, 9))] = odd
    return bytes(wire) * draw(st.integers(1, 2))


ODD = (
    b"\r\n", b"\n", b"\0", b":", b" ", b"content-length: 3\r\n", b"content-length: -1\r\n",
    b"transfer-encoding: chunked\r\n", b"transfer-encoding: identity\r\n", b"upgrade: h2c\r\n",
    b"connection: upgrade\r\nupgrade: websocket\r\n", b"expect: 100-continue\r\n", b"HTTP/1.0",
    b"HTTP/9.9", b"ffffffffffffffff\r\n", b"0\r\n\r\n", b"\xff\xfe",
)  # fmt: skip


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wire=wires())
@example(wire=WHOLE + b"transfer-encoding: chunked\r\n" + BODY)
@example(wire=WHOLE + b"content-length: 15\r\n" + BODY)
def test_invalid_bytes_never_cause_a_server_error(wire: bytes) -> None:
    answer = answered(_server[0], wire, hurry=True)
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]
    assert all(status < 500 for status in statuses), answer
    assert b"Traceback" not in answer


def test_two_lengths_of_a_body_are_refused(server: Server) -> None:
    """Another server in front of this one may have believed the other length."""
    for second in (b"transfer-encoding: chunked\r\n", b"content-length: 14\r\n"):
        answer = answered(server, WHOLE + second + BODY)
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_the_server_still_answers_other_requests(server: Server) -> None:
    assert answered(server, WHOLE + BODY).startswith(b"HTTP/1.1 200 ")
    assert not lanes(server)


_server: list[Server] = []


@pytest.fixture(autouse=True)
def _shared(server: Server) -> None:
    _server[:] = [server]  # hypothesis takes no fixture of a function
