"""How the program ends: quickly, with its exit code, all of its output, and its exit handlers."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from support.signals import default_signals

from marith.cli.__main__ import main

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
MARITH = [sys.executable, "-m", "marith"]
# The command line with one more command, whose body is the first argument.
WITH_COMMAND = """
import sys
from marith.cli import __main__ as program, app
body = sys.argv[1]
@app.command()
def extra() -> None:
    exec(body, {})
sys.argv = ["marith", "extra"]
program.main()
"""
LOUD = "for number in range(125_000): print(f'{number:07}')"  # a megabyte, in small pieces


def started(body: str, **options: Any) -> subprocess.Popen[bytes]:
    """A process whose command runs `body`, with pipes for its output, which it does not flush."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    buffered = {"env": {"PATH": "", "PYTHONPATH": ":".join(sys.path)}}
    return subprocess.Popen([sys.executable, "-c", WITH_COMMAND, body], **buffered, **options)


def test_the_script_that_is_installed_is_this_program() -> None:
    scripts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    assert EntryPoint("marith", scripts["marith"], "console_scripts").load() is main


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "M"), 0),
        (("--version",), 0),
        (("show", "M +"), 2),
        (("show", "--no-such-option"), 2),
        (("generate", "Hi", "--max-tokens", "900", "--timeout", "0.01", "--ban", "x"), 124),
    ],
)
def test_the_exit_code_is_that_of_the_command(arguments: tuple[str, ...], code: int) -> None:
    done = subprocess.run([*MARITH, *arguments], capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == (code != 0)


def test_an_interrupted_answer_ends_with_130_and_prints_no_traceback() -> None:
    never = "--regex", "[a-z ]{5000}"  # ends before the signal comes
    long = [*MARITH, "generate", "Tell me a story.", "--max-tokens", "900", *never]
    with default_signals():
        process = subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, b"")


def test_a_megabyte_reaches_a_pipe_completely() -> None:
    out, err = started(LOUD).communicate()
    assert err == b""
    assert out.decode() == "".join(f"{number:07}\n" for number in range(125_000))


@pytest.mark.parametrize("body", [LOUD, "print('a')", "print('a', flush=True)"])
def test_a_pipe_that_its_reader_closes_prints_no_error(body: str) -> None:
    process = started(body)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
@pytest.mark.parametrize("body", [LOUD, "print('a')", "print('a', flush=True)"])
def test_a_full_disk_is_reported_in_one_sentence(body: str) -> None:
    with open("/dev/full", "w") as full:
        process = started(body, stdout=full)
    _, err = process.communicate()
    assert err.decode() == "marith: the output cannot be written: No space left on device\n"
    assert process.returncode == 1


def test_exit_handlers_run_and_modules_are_not_destroyed(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("exit", "finalized", "thread", "log", "module")]
    body = f"""
import atexit, logging.handlers, sys, threading, time, types, weakref
atexit.register(lambda: open({names[0]!r}, "w").close())
held = type("Held", (), {{}})()
weakref.finalize(held, lambda: open({names[1]!r}, "w").close())
def late():
    time.sleep(0.5)
    open({names[2]!r}, "w").close()
threading.Thread(target=late).start()
log = logging.getLogger("kept")
log.addHandler(logging.handlers.MemoryHandler(9, target=logging.FileHandler({names[3]!r})))
log.error("kept until the end")
class TakenDown:
    def __del__(self, open=open):
        open({names[4]!r}, "w").close()
module = sys.modules["of_a_test"] = types.ModuleType("of_a_test")
module.value = TakenDown()
"""
    process = started(body)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "exit", "finalized", "log", "thread",
    ]  # fmt: skip
    assert "kept until the end" in (tmp_path / "log").read_text(encoding="utf-8")


def test_an_unexpected_error_has_its_traceback() -> None:
    _, err = (process := started("1 / 0")).communicate()
    assert process.returncode == 1
    assert b"ZeroDivisionError" in err
