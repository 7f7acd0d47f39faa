"""Run the server as the deployment files in docs/examples do.

Neither Docker nor a running systemd is needed: the commands of the files run as processes. `make
docker` builds the image. nginx runs where it is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.documents import PERSONAS, ROOT
from support.shell_lines import free_port
from support.signals import default_signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no signals")
DOCKERFILE, UNIT, NGINX = (
    ROOT / "docs" / "examples" / name for name in ("Dockerfile", "marith.service", "nginx.conf")
)
# The program needs these variables in a checkout. A service or a container has no others of ours.
OF_THE_TESTS = ("PATH", "PYTHONPATH", "OMP_NUM_THREADS")
KEY = "sk-a-key-of-the-test"
QUESTION = {"model": "polite", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that has these variables and no home."""
    ours = {name: os.environ[name] for name in OF_THE_TESTS if name in os.environ}
    return {**ours, "HOME": "/nonexistent", **variables}


def program(words: Sequence[str]) -> list[str]:
    """Return a command of marith's with this Python."""
    assert Path(words[0]).name == "marith"
    return [sys.executable, "-m", "marith", *words[1:]]


@contextmanager
def server(
    words: Sequence[str], variables: Mapping[str, str], port: int, log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a server once it is ready, and kill it at the end."""
    with log.open("w", encoding="utf-8") as written, default_signals():
        process = subprocess.Popen(
            program(words), env=environment(variables), stderr=written, text=True, cwd=log.parent
        )
    try:
        end = time.monotonic() + 60
        while not is_ready(port):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait(20)


def is_ready(port: int) -> bool:
    """Return whether a server answers at /ready that its models are loaded."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def ask(port: int, key: str, host: str = "localhost") -> int:
    """Return the status of an answer by a formula of the persona file."""
    headers = {"authorization": f"Bearer {key}", "host": host}
    address = f"http://127.0.0.1:{port}/v1/chat/completions"
    return httpx.post(address, json=QUESTION, headers=headers, timeout=60).status_code


@pytest.fixture
def persona(tmp_path: Path) -> Path:
    file = tmp_path / "marith.toml"
    file.write_text(PERSONAS, encoding="utf-8")
    return file


def instruction(name: str) -> str:
    """Return the arguments of the Dockerfile's only instruction with this name."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text(encoding="utf-8"))
    [arguments] = re.findall(rf"^{name} (.*)$", text, re.MULTILINE)
    return str(arguments)


def words_of(name: str) -> list[str]:
    """Return the words of an instruction's JSON list, without the options before the list."""
    arguments = instruction(name)
    return list(map(str, json.loads(arguments[arguments.index("[") :])))


def test_the_container_serves_and_is_healthy_until_it_is_stopped(
    tmp_path: Path, persona: Path, socket_enabled: None
) -> None:
    port, host = free_port(), "models.example"
    words = [*words_of("ENTRYPOINT"), str(persona), "--host-name", host, "--port", str(port)]
    variables = {**dict([instruction("ENV").split("=")]), "MARITH_API_KEYS": KEY}
    probe = [word.replace(":8000/", f":{port}/") for word in words_of("HEALTHCHECK")]

    def healthy() -> bool:
        done = subprocess.run(probe, capture_output=True, check=False, env=environment({}))
        return done.returncode == 0

    assert not healthy()
    with server(words, variables, port, tmp_path / "log") as process:
        assert healthy()
        assert ask(port, KEY, host) == 200
        assert ask(port, "sk-another-key", host) == 401
        process.send_signal(signal.Signals[instruction("STOPSIGNAL")])
        assert process.wait(20) == 0
    assert not healthy()


@pytest.fixture
def service() -> Mapping[str, str]:
    unit = ConfigParser(delimiters="=", comment_prefixes="#", interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    return unit["Service"]


def test_the_service_serves_and_ends_in_time(
    service: Mapping[str, str], tmp_path: Path, persona: Path, socket_enabled: None
) -> None:
    port, most = free_port(), int(service["TimeoutStopSec"])
    words = service["ExecStart"].split()
    assert most > float(words[words.index("--drain-seconds") + 1])
    words[words.index("/etc/marith/marith.toml")] = str(persona)
    words[words.index("--port") + 1] = str(port)
    variables = {**dict([service["Environment"].split("=")]), "MARITH_API_KEYS": KEY}
    with server(words, variables, port, tmp_path / "log") as process:
        assert ask(port, KEY) == 200
        assert ask(port, "sk-another-key") == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(most) == 0


def test_the_service_does_not_restart_for_what_a_restart_cannot_mend(
    service: Mapping[str, str], tmp_path: Path
) -> None:
    wrong = tmp_path / "marith.toml"
    wrong.write_text("[formulas]\npolite = 'M -'\n", encoding="utf-8")
    words = service["ExecStart"].replace("/etc/marith/marith.toml", str(wrong)).split()
    done = subprocess.run(
        program(words), env=environment({}), capture_output=True, text=True, check=False
    )
    assert service["Restart"] == "on-failure"
    assert str(done.returncode) in service["RestartPreventExitStatus"].split()
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_knows_every_option(tmp_path: Path) -> None:
    unit = UNIT.read_text(encoding="utf-8")
    copy = tmp_path / UNIT.name
    # The program of the unit is not on this machine.
    copy.write_text(unit.replace("/opt/marith/bin/marith", shutil.which("sh") or ""))
    verify = ["systemd-analyze", "verify", "--man=no", str(copy)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr


@contextmanager
def nginx(folder: Path, port: int, replicas: list[int]) -> Iterator[ssl.SSLContext]:
    """Run nginx as the file says, with the ports and a certificate of the test."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=models.example",
        "-addext", "subjectAltName=DNS:models.example", "-keyout", str(key),
        "-out", str(certificate),
    ]  # fmt: skip
    subprocess.run(make, check=True, capture_output=True)
    text = NGINX.read_text(encoding="utf-8")
    instead = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/nginx/models.example.pem": str(certificate),
        "/etc/nginx/models.example.key": str(key),
        "10.0.0.1:8000": f"127.0.0.1:{replicas[0]}",
        "10.0.0.2:8000": f"127.0.0.1:{replicas[1]}",
    }
    for said, other in instead.items():
        assert said in text
        text = text.replace(said, other)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    whole = folder / "whole.conf"
    head = f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}"
    whole.write_text(f"{head}\nhttp {{ access_log off; {paths}\n{text}\n}}\n", encoding="utf-8")
    command = ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(whole)]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield ssl.create_default_context(cafile=str(certificate))
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_nginx_asks_the_other_replica_for_one_that_does_not_answer(
    tmp_path: Path, persona: Path, socket_enabled: None
) -> None:
    port, alive, dead = free_port(), free_port(), free_port()
    words = ["marith", "serve", str(persona), "--host-name", "models.example", "--port", str(alive)]
    with (
        server(words, {}, alive, tmp_path / "log"),
        nginx(tmp_path, port, [dead, alive]) as trusted,
        httpx.Client(verify=trusted, base_url=f"https://127.0.0.1:{port}", timeout=60) as web,
    ):
        end = time.monotonic() + 20
        while True:
            try:
                web.get("/health", extensions={"sni_hostname": "models.example"})
                break
            except httpx.ConnectError:
                assert time.monotonic() < end
        for session in map(str, range(8)):
            answer = web.post(
                "/v1/chat/completions", json=QUESTION,
                headers={"host": "models.example", "x-session-id": session},
                extensions={"sni_hostname": "models.example"},
            )  # fmt: skip
            assert answer.status_code == 200, answer.text
