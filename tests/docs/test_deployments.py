"""The files of docs/examples that run the server say what runs, and this runs it.

It needs neither Docker nor a running systemd: a process does what the files say. `make docker`
builds the image. nginx is run where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from packaging.specifiers import SpecifierSet
from support.deployments import (
    EXAMPLES,
    environment,
    exec_form,
    in_comments,
    instructions,
    program,
    read_unit,
    server,
)
from support.documents import PERSONAS, ROOT
from support.shell_lines import free_port

from marith.scoring.weights.locate import WEIGHTS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no signals")
DOCKERFILE, UNIT, NGINX = (
    EXAMPLES / name for name in ("Dockerfile", "marith.service", "nginx.conf")
)
KEY = "sk-a-key-of-the-test"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUESTION = {"model": "polite", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}


@pytest.fixture
def persona(tmp_path: Path) -> Path:
    file = tmp_path / "marith.toml"
    file.write_text(PERSONAS, encoding="utf-8")
    return file


def ask(port: int, key: str, host: str = "localhost") -> int:
    """Return the status of an answer by a formula of the persona file."""
    headers = {"authorization": f"Bearer {key}", "host": host}
    address = f"http://127.0.0.1:{port}/v1/chat/completions"
    return httpx.post(address, json=QUESTION, headers=headers, timeout=60).status_code


def seconds(span: str) -> int:
    """Return a time span of systemd's that is a number of seconds."""
    return int(span.removesuffix("s"))


def arguments(name: str) -> list[str]:
    return [rest for each, rest in instructions(DOCKERFILE) if each == name]


def test_the_image_gets_files_and_extras_that_exist() -> None:
    copied = [rest.split()[:-1] for rest in arguments("COPY")]
    files = {file for sources in copied for file in sources}
    assert files
    assert all((ROOT / file).exists() for file in files)
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    wheel = built["build"]["targets"]["wheel"]["packages"]
    readme = [each["path"] for each in built["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]]
    needed = {"pyproject.toml", *PROJECT["license-files"], *readme}
    assert needed | {package.split("/")[0] for package in wheel} == files
    [extras] = re.findall(r'"\.\[([\w,]+)\]"', " ".join(arguments("RUN")))
    assert {*extras.split(",")} <= {*PROJECT["optional-dependencies"]}
    [image] = arguments("FROM")
    [version] = re.findall(r"^python:([\d.]+)-slim$", image)
    assert version in SpecifierSet(PROJECT["requires-python"])
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_the_container_serves_and_is_healthy_until_it_is_stopped(
    tmp_path: Path, persona: Path, socket_enabled: None
) -> None:
    port = free_port()
    [entry], [check] = map(arguments, ("ENTRYPOINT", "HEALTHCHECK"))
    given = in_comments(DOCKERFILE, "docker run")
    options = given[given.index("marith") + 1 :]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine").symlink_to(WEIGHTS / "pocket")
    instead = {"/marith.toml": str(persona), "/models/mine": str(tmp_path / "models" / "mine")}
    assert {*instead} <= {*options}
    words = program([*exec_form(entry), *options, "--port", str(port)], instead)
    variables = dict(rest.split("=") for rest in arguments("ENV"))
    assert ["-e", "MARITH_API_KEYS"] in [given[i : i + 2] for i in range(len(given))]

    def healthy() -> bool:
        probe = [word.replace(":8000/", f":{port}/") for word in exec_form(check)]
        done = subprocess.run(probe, capture_output=True, check=False, env=environment({}))
        return done.returncode == 0

    assert not healthy()
    with server(words, {**variables, "MARITH_API_KEYS": KEY}, port, tmp_path / "log") as process:
        assert healthy()
        host = options[options.index("--host-name") + 1]
        assert ask(port, KEY, host) == 200
        assert ask(port, "sk-another-key", host) == 401
        [stop] = arguments("STOPSIGNAL")
        process.send_signal(signal.Signals[stop])
        assert process.wait(20) == 0
    assert not healthy()


@pytest.fixture
def service() -> Any:
    return read_unit(UNIT)["Service"]


def test_the_service_serves_and_ends_in_time(
    service: Any, tmp_path: Path, persona: Path, socket_enabled: None
) -> None:
    port = free_port()
    words = service["ExecStart"].split()
    assert seconds(service["TimeoutStopSec"]) > float(words[words.index("--drain-seconds") + 1])
    assert service["Type"] == "exec"  # the server does not notify systemd
    name, _, value = service["Environment"].partition("=")
    assert value == f"/var/cache/{service['CacheDirectory']}"  # the one folder it can write
    keys = in_comments(UNIT, "(umask")
    assert keys[-1] == f"{service['EnvironmentFile']})"
    assert keys[3].startswith("MARITH_API_KEYS=")
    instead = {"/etc/marith/marith.toml": str(persona), "8000": str(port)}
    assert {*instead} <= {*words}
    variables = {name: value, "MARITH_API_KEYS": KEY}
    with server(program(words, instead), variables, port, tmp_path / "log") as process:
        assert ask(port, KEY) == 200
        assert ask(port, "sk-another-key") == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(seconds(service["TimeoutStopSec"])) == 0


def test_the_service_does_not_restart_for_what_a_restart_cannot_mend(
    service: Any, tmp_path: Path
) -> None:
    wrong = tmp_path / "marith.toml"
    wrong.write_text("[formulas]\npolite = 'M -'\n", encoding="utf-8")
    words = program(service["ExecStart"].split(), {"/etc/marith/marith.toml": str(wrong)})
    done = subprocess.run(words, env=environment({}), capture_output=True, text=True, check=False)
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
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=models.example",
    ]
    name = ["-addext", "subjectAltName=DNS:models.example"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *name, *files], check=True, capture_output=True)
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
    log = tmp_path / "log"
    with (
        server(program(words, {}), {}, alive, log),
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
