"""Serve pocket and let other makers' clients ask: `python -m tools.clients PYTHON`.

PYTHON is the interpreter of an environment that has them (`make clients`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parent
PERSONAS = """
[terms]
rude = "You are rude."
kind = "You are kind."
[formulas]
polite = "M - 0.5*rude + 0.3*kind"
"""
KEY, PORT = "sk-client-key", 8131


def main(python: str) -> int:
    url = f"http://127.0.0.1:{PORT}"
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "marith.toml", Path(folder) / "log"
        file.write_text(PERSONAS, encoding="utf-8")
        command = [sys.executable, "-m", "marith", "serve", str(file), "--port", str(PORT)]
        environment = {**os.environ, "MARITH_API_KEYS": KEY}
        with log.open("w") as lines:
            server = subprocess.Popen(command, env=environment, stderr=lines)
        try:
            while "marith serves" not in log.read_text():
                if server.poll() is not None:
                    print(log.read_text(), file=sys.stderr)
                    return 1
                time.sleep(0.2)
            own = {**os.environ, "MARITH_URL": url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            asked = subprocess.run(
                [python, FOLDER / "asking_responses.py", url], env=own
            ).returncode
            suite = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
            # One loop for all tests: clients keep connections of the loop where they first asked.
            suite += ["-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"]
            suite += ["-rs", str(FOLDER / "standard_suite.py")]
            return max(asked, subprocess.run(suite, env=own).returncode)
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
