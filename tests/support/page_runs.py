"""Run the blocks of a page in order, and compare what they print with what the page says.

The blocks of a page share one folder, and the `python` blocks one namespace. A `toml` block is
written as `marith.toml`. The output of a `python` or `sh` block is compared with a `text` block
that follows it at once. Where that `text` block has a title, a real model printed it: the blocks
run with that model's file in `tests/real`, and elsewhere with a stand-in, whose texts are others.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from lm_eval.tasks import TaskManager
from support.documents import ROOT, blocks, name, write_files
from support.shell_lines import INSTEAD, free_port, lines_of, run, run_server, serves

from marith import load_file
from marith.formula.text.calls import CALLS

# Lines of shell blocks that are not run, by their beginnings.
LINES_NOT_RUN = {
    "git clone": "it needs the network",
    "python -m tools.real_models": "it fetches packages",
    "python -m tools.byte_measures": "it reads 17 texts with two models",
    "pip install": "it changes the environment",
    "make ": "it is a target of the Makefile, which exists",
}
# `python` blocks that are not run, by what is in them.
PYTHON_NOT_RUN = {
    'backend="llama.cpp"': "it needs llama.cpp, which `make llamacpp` builds",
    '"cuda:0"': "it needs a GPU",
}
RUN = {"python", "sh", "toml"}


class OpenAI:
    """What the pages ask of OpenAI's client, which the environment of the tests does not have."""

    def __init__(self, base_url: str, api_key: str) -> None:
        self.address = f"{base_url}/chat/completions"
        self.chat = SimpleNamespace(completions=self)

    def create(self, extra_body: dict[str, Any], **fields: Any) -> Any:
        answer = httpx.post(self.address, json={**fields, **extra_body}, timeout=300)
        content = answer.json()
        message = SimpleNamespace(**content["choices"][0]["message"])
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], marith=content["marith"])


# By what a page says: a module that the environment of the tests does not have.
MODULES = {
    "from openai import": ("openai", SimpleNamespace(OpenAI=OpenAI)),
    "measures:formality": (
        "textblob",
        SimpleNamespace(en=SimpleNamespace(tag=lambda _: [("I", "PRP")])),
    ),
    "measures:profanity": ("profanity_check", SimpleNamespace(predict_prob=lambda _: [0.5])),
}


@contextlib.contextmanager
def setting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a folder, and restore what programs change: modules, paths, loggers, calls."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    # The list of the harness's own tasks takes 13 s of a processor.
    own = partial(TaskManager, include_defaults=False)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", own)
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda _: None)
    loggers = [logging.getLogger(each) for each in ("", "marith", "marith.serving", "uvicorn")]
    kept = [(one, one.level, [*one.handlers], one.propagate) for one in loggers]
    before = set(sys.modules)
    with patch.dict(CALLS):  # a page may define names, which are its own
        yield
    for one, level, handlers, propagate in kept:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None) or ""
        if file.startswith((str(folder), str(ROOT / "docs"))):
            del sys.modules[module]


def here(code: str, port: int) -> str:
    """The code with the port of the test, and without what no machine of the tests has."""
    for said, instead in {**INSTEAD, ":8000": f":{port}"}.items():
        code = code.replace(said, instead)
    return code


def without_padding(text: str) -> str:
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


def with_ellipses(shown: str, printed: str) -> str:
    """Return `printed` if it is as `shown`, where "…" stands for what each run prints anew.

    Such are the figures of a column of times. Otherwise return `shown`.
    """
    pattern = r"[^\n]*?".join(map(re.escape, re.split(" *…", shown)))
    return printed if re.fullmatch(pattern, printed) else shown


def printed_by(code: str, namespace: dict[str, Any], where: str) -> str:
    # Without this file's own `annotations`, which classes of a page could not be read by.
    compiled = compile(code, where, "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compiled, namespace)
    return printed.getvalue()


def running(page: Path, port: int, model: str) -> Iterator[str]:
    """Run the blocks of a page. Yield each line that starts a server, and do not run it.

    Of the outputs, those that `model` printed are compared; "" is the model pocket.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for i, block in enumerate(blocks(page)):
        code, printed = here(block.code, port), ""
        compared = block.output is not None and block.model == model
        if block.kind == "python" and not any(key in code for key in PYTHON_NOT_RUN):
            printed = printed_by(code, namespace, f"{name(page)}[{i}]")
        elif block.kind == "sh":
            for line in lines_of(code):
                if serves(line):
                    yield line
                elif not line.startswith((*LINES_NOT_RUN,)):
                    printed += run(line, whole=compared)
        elif block.kind == "toml":
            Path("marith.toml").write_text(code, encoding="utf-8")
            assert load_file("marith.toml").formulas
        if block.kind in RUN and compared:
            printed = without_padding(printed)
            assert printed == with_ellipses(block.output or "", printed), f"it prints:\n{printed}"


def run_page(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str = "",
    files: Mapping[str, Path] | None = None,
) -> None:
    """Run all blocks of a page in a folder, with `files` by their names in place of stand-ins.

    Raises AssertionError if a block fails, or prints something else than the page says.
    """
    for said, (module, instead) in MODULES.items():
        if said in page.read_text(encoding="utf-8") and find_spec(module) is None:
            monkeypatch.setitem(sys.modules, module, instead)
    write_files(page, folder, files or {})
    port = free_port() if needs_sockets(page) else 0
    with setting(folder, monkeypatch):
        run_of_page = running(page, port, model)
        server = next(run_of_page, None)
        while server is not None:
            server = run_server(server, port, lambda: next(run_of_page, None))


def shell_lines(page: Path) -> list[str]:
    return [line for block in blocks(page) if block.kind == "sh" for line in lines_of(block.code)]


def needs_sockets(page: Path) -> bool:
    return any(serves(line) for line in shell_lines(page))
