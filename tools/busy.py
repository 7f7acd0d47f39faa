"""Print what 40 tokens take, quiet and beside busy processes, by who chooses the number of threads.

Run as `python -m tools.busy`, five minutes on two cores with nothing else to do. A round has every
choice once, in turn, each in a process of its own; figures are medians over all texts of a choice.
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from statistics import median
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from marith import Engine
from marith.engine.threads import workers

OWN, TORCH = "the engine's own", "torch's"
PASSIVE, ONE = "OMP_WAIT_POLICY=PASSIVE", "OMP_NUM_THREADS=1"  # the first with torch's number
PROMPT, TOKENS, TEXTS = "Tell me something interesting about pandas.", 40, 5
SPIN = [sys.executable, "-c", "while True: pass"]
CHOSEN = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}


def measure(model: str, choice: str) -> tuple[list[float], int]:
    """In a process of its own: seconds for 40 tokens of each text, and the threads of a pass."""
    if choice in (TORCH, PASSIVE):
        workers.threads_for = lambda _: None
    threads, seconds = set[int](), list[float]()
    with Engine.load(model, device="cpu") as engine:
        base = engine._registry.base.runner.passes.reader
        base.register_forward_pre_hook(lambda *_: threads.add(torch.get_num_threads()))
        engine.generate(PROMPT, max_tokens=TOKENS)
        for _ in range(TEXTS):
            start = time.perf_counter()
            out = engine.generate(PROMPT, max_tokens=TOKENS, temperature=0, speculation=None)
            seconds.append((time.perf_counter() - start) * TOKENS / len(out.tokens))
    return seconds, max(threads)


def apart(model: str, choice: str) -> tuple[list[float], int]:
    """What `measure` returns in a fresh process, whose environment chooses no threads but here."""
    environment = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    environment |= [choice.split("=")] if "=" in choice else []
    command = [sys.executable, "-m", "tools.busy", "--model", model, "--choice", choice]
    return json.loads(subprocess.check_output(command, env=environment))  # noqa: S603


def main(
    busy: Annotated[int, typer.Option(min=1, help="Processes beside it.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Processes of each choice.")] = 5,
    model: Annotated[str, typer.Option(help="pocket, or a directory.")] = "pocket",
    choice: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    if choice:
        print(json.dumps(measure(model, choice)))
        return
    seconds, threads = defaultdict(list), {}
    for count in (0, busy) * rounds:
        beside = [subprocess.Popen(SPIN) for _ in range(count)]  # noqa: S603
        try:
            for each in (OWN, TORCH, PASSIVE, ONE):
                times, threads[each] = apart(model, each)
                seconds[each, count] += times
        finally:
            for process in beside:
                process.kill()
                process.wait()
    table = Table("threads", "a pass", "quiet, s", f"beside {busy}, s", title=f"{TOKENS} tokens")
    for each, number in threads.items():
        table.add_row(each, str(number), *(f"{median(seconds[each, n]):.2f}" for n in (0, busy)))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
