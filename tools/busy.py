"""Print how long a step takes, quiet and beside busy processes, by how OpenMP's threads wait.

Run as `python -m tools.busy`, ten minutes on two cores with nothing else to do. In a round each
policy has a process of its own, one after the other; a figure is the median over all rounds.
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

POLICIES = {
    "libgomp's own": {"GOMP_SPINCOUNT": "300000"},
    "GOMP_SPINCOUNT=100000": {"GOMP_SPINCOUNT": "100000"},
    "GOMP_SPINCOUNT=20000": {"GOMP_SPINCOUNT": "20000"},  # marith's
    "GOMP_SPINCOUNT=10000": {"GOMP_SPINCOUNT": "10000"},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "OMP_NUM_THREADS=1": {"GOMP_SPINCOUNT": "300000", "OMP_NUM_THREADS": "1"},
}
TERMS = 4
ROWS = (1, 4, 16)
SPIN = [sys.executable, "-c", "while True: pass"]
CHOSEN = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}


def measure(model, backend, tokens: int, beside: list[int]) -> dict[str, float]:
    """Milliseconds of a step by "rows, busy processes", in this process."""
    found = {}
    with _engine(model, backend) as engine:
        for rows in ROWS:
            _step_ms(engine, rows, 4)
        for count in beside:
            with _busy(count):
                for rows in ROWS:
                    found[f"{rows}, {count}"] = _step_ms(engine, rows, tokens)
    return found


def _engine(model, backend):
    from marith import Engine
    from marith.evals.speed.benchmark.timed_model import TimedModel

    if model is None:
        return TimedModel.of().engine(max(ROWS))
    return Engine.load(model, device="cpu", backend=backend, max_lanes=max(ROWS))


def _step_ms(engine, rows: int, tokens: int) -> float:
    """One term alone, or texts of four terms each: so many rows in a pass."""
    terms = {f"t{i}": f"Answer as number {i}." for i in range(min(rows, TERMS))}
    formula = " + ".join(f"{1 / len(terms)}*{name}" for name in terms)
    options = {"speculation": None, "temperature": 0, "ignore_eos": True}
    texts = [f"Tell me about pandas, {i}." for i in range(max(1, rows // TERMS))]
    options |= {"formula": formula, "terms": terms}
    for text in texts:
        engine.generate(text, max_tokens=1, **options)
    start = time.perf_counter()
    engine.generate(texts, max_tokens=tokens, **options)
    return 1000 * (time.perf_counter() - start) / tokens


@contextmanager
def _busy(count: int):
    beside = [subprocess.Popen(SPIN) for _ in range(count)]  # noqa: S603
    time.sleep(0.2)
    try:
        yield
    finally:
        for process in beside:
            process.kill()
            process.wait()


def _apart(model, backend, tokens: int, beside: list[int], policy: str) -> dict[str, float]:
    """What `measure` returns in a fresh process, in which nothing else chooses a policy."""
    environment = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    command = [sys.executable, "-m", "tools.busy", "--tokens", str(tokens), "--measure"]
    command += [word for count in beside for word in ("--beside", str(count))]
    command += ["--model", model] if model else []
    command += ["--backend", backend] if backend else []
    return json.loads(subprocess.check_output(command, env=environment | POLICIES[policy]))  # noqa: S603


def main(
    model: Annotated[str | None, typer.Option(help="The default is a random Llama.")] = None,
    backend: Annotated[str | None, typer.Option(help="As Engine.load has it.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Processes of each policy.")] = 3,
    tokens: Annotated[int, typer.Option(min=1, help="Steps of a figure.")] = 16,
    beside: Annotated[list[int], typer.Option(min=0, help="Busy processes.")] = [0, 1, 2],  # noqa: B006
    measure_here: Annotated[bool, typer.Option("--measure", hidden=True)] = False,
) -> None:
    if measure_here:
        print(json.dumps(measure(model, backend, tokens, beside)))
        return
    figures = defaultdict(list)
    for _ in range(rounds):
        for policy in POLICIES:
            for cell, value in _apart(model, backend, tokens, beside, policy).items():
                figures[policy, cell].append(value)
    cells = [f"{rows}, {count}" for count in beside for rows in ROWS]
    title = "ms a step by rows, busy processes beside: median (range)"
    table = Table("policy", *cells, title=title)
    for policy in POLICIES:
        row = (figures[policy, cell] for cell in cells)
        table.add_row(policy, *(f"{median(r):.0f} ({min(r):.0f}-{max(r):.0f})" for r in row))
    Console(width=200).print(table)


if __name__ == "__main__":
    typer.run(main)
