"""Build into `dist/`, install the wheels and the sdists in clean environments, and test there.

Run as `python -m tools.dist_test` with the packages of requirements.txt. The environments are in a
temporary folder, and no test there sees the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
APPLICATION = Path(__file__).with_name("application.py")
SHIMS = sorted((ROOT / "packages").iterdir())
LARGEST = 18_000_000  # bytes of a wheel
# The folders in each wheel. Each wheel also has the license.
CONTENTS = {
    "marith": {"marith", "langchain_marith", "llamaindex_marith"},
    "langchain_marith": set[str](),
    "llama_index_llms_marith": {"llama_index"},
}
TYPED = {"marith", "langchain_marith", "llamaindex_marith", "llama_index/llms/marith"}
OUTSIDE = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
    "HF_HUB_OFFLINE": "1",
    "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
}


def main() -> None:
    with step("build"):
        build()
    with step("contents"):
        check_contents()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("*.whl", "*.tar.gz"):
            with step(f"install {kind}"):
                environment = Path(folder) / "environment"
                install(environment, sorted(DIST.glob(kind)))
            with step("demo"):
                run(environment / "bin" / "marith", "demo", cwd=folder)
            with step("application and README of the packages"):
                check_programs(environment, Path(folder))
            with step("serve"):
                check_server(environment, Path(folder))
            if kind == "*.whl":
                with step("types of the application"):
                    check_types(environment, Path(folder))
                with step("bill of materials"):
                    write_bill_of_materials(environment)
            shutil.rmtree(environment)


@contextmanager
def step(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:6.1f} s  {name}", flush=True)


def run(*command: str | Path, cwd: str | Path = ROOT) -> str:
    """Return the output of a command. If it fails, print everything and end this program."""
    done = subprocess.run(command, cwd=cwd, env=OUTSIDE, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    """Build sdists, and wheels from them. Require that the checkout gives equal wheels."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for project in (ROOT, *SHIMS):
            run(sys.executable, "-m", "build", "--outdir", DIST, project)
            run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, project)
        for wheel in DIST.glob("*.whl"):
            direct = Path(folder, wheel.name).read_bytes()
            assert wheel.read_bytes() == direct, f"{wheel.name} of the sdist is another"


def check_contents() -> None:
    names: set[str] = set()
    for wheel in DIST.glob("*.whl"):
        assert wheel.stat().st_size <= LARGEST, f"{wheel.name}: {wheel.stat().st_size} bytes"
        inside = zipfile.ZipFile(wheel).namelist()
        names.update(inside)
        folders = {name.split("/")[0] for name in inside if ".dist-info/" not in name}
        assert folders == CONTENTS[wheel.name.split("-")[0]], f"{wheel.name}: {folders}"
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside), wheel.name
    assert {f"{folder}/py.typed" for folder in TYPED} <= names
    strange = [name for name in names if re.search(r"(^|/)(tests?/|test_|conftest)", name)]
    assert not strange, f"tests in a wheel: {strange}"
    for file in sorted(DIST.iterdir()):
        print(f"          {file.stat().st_size:10,} bytes  {file.name}")


def install(environment: Path, files: list[Path]) -> None:
    """Install the files of `dist/`, with all extras that the tests use."""
    run(sys.executable, "-m", "venv", environment)
    (main,) = [file for file in files if file.name.startswith("marith-")]
    others = [file for file in files if file != main]
    pip = (environment / "bin" / "python", "-m", "pip", "install", "--quiet")
    run(*pip, f"{main}[serve]", *others, cwd=environment)


def check_programs(environment: Path, folder: Path) -> None:
    """Run the application, and the first block of Python of each package's README."""
    python = environment / "bin" / "python"
    program = shutil.copy(APPLICATION, folder)
    answers = run(python, program, cwd=folder).splitlines()
    assert len(answers) == 5, answers
    assert len({*answers}) == 1, f"the doors do not answer alike: {answers}"
    for package in SHIMS:
        text = (package / "README.md").read_text(encoding="utf-8")
        example, printed = re.findall(r"^```(?:python|text)\n(.*?)^```", text, re.DOTALL | re.M)
        answer = run(python, "-c", example, cwd=folder)
        assert answer == printed, f"{package.name}: {answer!r}"


def check_server(environment: Path, folder: Path) -> None:
    """Ask `marith serve` a question, and stop it by SIGTERM."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    log = folder / "log"
    command: list[str | Path] = [environment / "bin" / "marith", "serve", "--port", port]
    with log.open("w") as lines:
        server = subprocess.Popen(command, cwd=folder, env=OUTSIDE, stderr=lines)
    try:
        limit = time.monotonic() + 120
        while "marith serves" not in log.read_text():
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < limit, "the server does not start"
            time.sleep(0.2)
        body = {"model": "pocket", "messages": [{"role": "user", "content": "Hello!"}]}
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0, log.read_text()
    finally:
        server.kill()


def check_types(environment: Path, folder: Path) -> None:
    """Check the application by mypy, which sees only the types of the installed wheels."""
    program = shutil.copy(APPLICATION, folder)
    python = environment / "bin" / "python"
    options = ("--strict", "--cache-dir", folder / "types", "--python-executable", python)
    run(sys.executable, "-m", "mypy", *options, program, cwd=folder)


def write_bill_of_materials(environment: Path) -> None:
    """Write the distributions of an environment and their dependencies, in CycloneDX's format."""
    python = environment / "bin" / "python"
    file = DIST / "marith.cdx.json"
    options = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library")
    more = ("--output-reproducible", "--output-file", file)
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, *more, python)
    found = {component["name"] for component in json.loads(file.read_text())["components"]}
    assert {"torch", "transformers", "langchain-core", "llama-index-core"} <= found


if __name__ == "__main__":
    main()
