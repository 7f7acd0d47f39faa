"""Compare lm-evaluation-harness in this process and over HTTP: figures must be equal.

`local-completions` and `local-chat-completions` ask a server for what `--model marith` computes in
its own process, for one formula of one persona file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marith.evals.harness import MarithLM
from tools.clients.harness_tasks import write_tasks

SCRIPT = Path(__file__).parent / "harness_figures.py"
# Tasks of each run. The harness gives each text a seed of its own, so only a single text can be
# compared.
TEXTS = {"text": ["choosing", "reading", "saying"], "drawn": ["drawing"]}
CHATS = {"tasks": ["answering"], "apply_chat_template": True}
SEED = 7
# The tolerance of log-likelihoods. That of a thousand tokens is a sum in float32.
NATS, OF_THE_SUM = 1e-4, 1e-7

Found = dict[str, dict[str, Any]]


def compare(python: str, url: str, key: str, file: Path, models: dict[str, Any]) -> bool:
    """Print both figures of each task, and return True if they are equal.

    `models` are the server's models, each with the arguments of its formula in this process.
    """
    folder = file.parent / "tasks"
    folder.mkdir()
    write_tasks(folder)
    native: dict[str, Any] = {}
    wire: dict[str, Any] = {}
    for name, formula in models.items():
        own = {"file": str(file), "seed": SEED, **formula}
        # The context without the system prompts, plus a token to start from and one to predict.
        length = MarithLM(**own).max_length + 2
        remote = {"model": name, "seed": SEED, "max_length": length}
        texts = {**remote, "base_url": f"{url}/v1/completions", "auth_token": key}
        chats = {**remote, "base_url": f"{url}/v1/chat/completions"}
        for runs, model, chat_model, given, chat_given in (
            (native, "marith", "marith", own, own),
            (wire, "local-completions", "local-chat-completions", texts, chats),
        ):
            for kind, tasks in TEXTS.items():
                asked: dict[str, Any] = {"tasks": tasks, "model_args": given}
                runs[f"{name}, {kind}"] = {"model": model, "arguments": asked}
            asked = {**CHATS, "model_args": chat_given}
            runs[f"{name}, chat"] = {"model": chat_model, "arguments": asked}
    return _printed(
        _found(sys.executable, folder, native, {}),
        _found(python, folder, wire, {"OPENAI_API_KEY": key}),
    )


def _found(python: str, folder: Path, runs: dict[str, Any], more: dict[str, str]) -> Any:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    ran = subprocess.run(
        [python, str(SCRIPT), str(folder)],
        input=json.dumps(runs), env={**os.environ, **offline, **more}, text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


def _printed(native: dict[str, Found], wire: dict[str, Found]) -> bool:
    equal = True
    print("| formula | task | figure | native | over the wire | largest difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    for run, tasks in native.items():
        for task, own in tasks.items():
            other = wire[run][task]
            pairs = [*_differences(own["answers"], other["answers"])]
            equal &= all(far <= NATS + OF_THE_SUM * size for far, size in pairs)
            difference = max(far for far, _ in pairs)
            for name, figure in own["figures"].items():
                equal &= "acc" not in name or figure == other["figures"][name]
                cells = (run, task, name, figure, other["figures"][name], difference)
                print(f"| {' | '.join(map(_cell, cells))} |")
    return equal


def _cell(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _differences(one: Any, other: Any) -> Iterator[tuple[float, float]]:
    """Yield the distance and the size of each two numbers. Other unequal values have infinity."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            yield from _differences(*pair)
    elif isinstance(one, float) and isinstance(other, float):
        yield abs(one - other), abs(one)
    else:
        yield 0.0 if one == other else float("inf"), 0.0
