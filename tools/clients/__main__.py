"""Serve pocket, and test the server with other clients.

Run as `python -m tools.clients CLIENTS LLAMAINDEX`. Both arguments are interpreters of environments
with the clients (`make clients`). LlamaIndex's client needs an older openai than the others.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import AutoTokenizer

from marith.scoring.weights.locate import locate
from marith.testing import save_scripted
from tools.clients.harness_table import compare

FOLDER, ROOT = Path(__file__).parent, Path(__file__).parents[2]
PERSONAS = """
[terms]
rude = "You are rude."
kind = "You are kind."
[formulas]
polite = "M - 0.5*rude + 0.3*kind"
thinking = {{ formula = "M", model = "{thinking}" }}
"""
# The models of the server that lm-evaluation-harness measures, and their arguments for `MarithLM`.
MODELS = {"pocket": {"formula": "M"}, "polite": {"persona": "polite"}}
KEY = "sk-client-key"
# The import of `marith.testing` registers the architecture of scripted checkpoints.
SERVER = "import marith.testing; from marith.cli.__main__ import main; main()"


def main(clients: str, llamaindex: str) -> int:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (file, url):
        asking, suite = FOLDER / "asking.py", FOLDER / "standard_suite.py"
        openai_like = FOLDER / "openai_like_suite.py"
        done = {
            "openai 3, LangChain and LiteLLM": ran([clients, asking, url], url),
            "openai 2": ran([llamaindex, asking, url, "openai"], url),
            "LangChain's standard suite": ran(tests(clients, suite), url),
            "LlamaIndex's OpenAILike": ran(tests(llamaindex, openai_like), url),
            "lm-evaluation-harness": compare(clients, url, KEY, file, MODELS),
        }
    for name, passed in done.items():
        print(f"{'passed' if passed else 'FAILED'}  {name}")
    return 0 if all(done.values()) else 1


@contextmanager
def served(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the persona file and the address of a server of pocket, a formula, and a model that
    reasons.
    """
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    reply = [("", "<think>A greeting.</think>Good day.")]
    thinking = save_scripted(folder / "thinking", reply, tokenizer)
    file, log = folder / "marith.toml", folder / "log"
    file.write_text(PERSONAS.format(thinking=thinking), encoding="utf-8")
    command = [sys.executable, "-c", SERVER, "serve", str(file), "--port", str(port := free_port())]
    with log.open("w") as lines:
        environment = {**os.environ, "MARITH_API_KEYS": KEY}
        server = subprocess.Popen(command, env=environment, stderr=lines, cwd=ROOT)
    try:
        while "marith serves" not in log.read_text():
            if server.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.2)
        yield file, f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def tests(python: str, file: Path) -> list[str | Path]:
    """Return a command that runs a test file without this repository's settings, and lists skips.

    All tests share one event loop, because clients keep connections of the loop in which they first
    asked.
    """
    options = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    return [*command, *options, "-W", "ignore", "-rsx", "--tb=short", file]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ran(command: list[str | Path], url: str) -> bool:
    """Return True if a command of another environment succeeds."""
    own = {**os.environ, "MARITH_URL": url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    own["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "core", ROOT)))
    return subprocess.run(command, env=own).returncode == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
