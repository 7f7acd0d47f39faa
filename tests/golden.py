"""Texts that a change has to leave as they are: recorded from another commit, then compared.

`python tests/golden.py --against REV` records REV and the working tree, each by its own copy of
this file, in a process of its own on this machine, and says what differs. Bits differ between
processors, so no record is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track
from support.golden_cases import TERMS, Case, cases

import marith
from marith import Completion, Engine, MarithError

ROOT = Path(__file__).parents[1]
COSTS = ("tokens", "passes", "calls", "drafted", "accepted", "judgements", "cached", "rewinds")
SCORED = ("M", "0.5*M + 0.5*kind", "M - 0.96*union(toxic, M) + 0.04*C", "2*kind - M", "polite")
CLOSE = 1e-4  # of log-probabilities
STREAMED = 17  # every so many cases are streamed again


def recorded() -> dict[str, Any]:
    """What every case comes to, by name. Errors are results too."""
    found: dict[str, Any] = {}
    with Engine.load("pocket") as engine:
        batches = [[*each] for _, each in groupby(cases(), lambda case: case.batch or case.name)]
        for batch in track(batches, "Texts", console=Console(stderr=True)):
            asked = [(case, engine.submit(case.request)) for case in batch]
            found.update({case.name: _result(case, ticket) for case, ticket in asked})
        for case in cases()[::STREAMED]:
            found[f"streamed {case.name}"] = list(_chunks(engine, case))
        for formula in SCORED:
            scores = engine.score("Tell me a story.", "Once upon a time.", formula, TERMS)
            found[f"scored {formula}"] = list(scores)
            row = engine.next_logprobs("Tell me a story.", formula, TERMS)
            found[f"next {formula}"] = row[::50].clamp(min=-99.0).tolist()
    return found


def _result(case: Case, ticket: Any) -> Any:
    try:
        completion = ticket.result(120)
    except MarithError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return _plain(completion, costs=case.request.speculation != "auto" and case.batch is None)


def _plain(completion: Completion, costs: bool) -> dict[str, Any]:
    """A completion as JSON; what follows measured times, and every second, is left out."""
    plain: dict[str, Any] = {
        "text": completion.text,
        "tokens": list(completion.tokens),
        "finish_reason": completion.finish_reason,
        "reasoning": completion.reasoning,
        "stop_string": completion.stop_string,
        "calls": [[call.name, call.arguments] for call in completion.calls],
        "logprobs": [
            [each.token, each.logprob, [[a.token, a.logprob] for a in each.top]]
            for each in completion.logprobs or ()
        ],
    }
    if costs:
        plain["costs"] = {name: getattr(completion.stats, name) for name in COSTS}
    return plain


def _chunks(engine: Engine, case: Case) -> Iterator[Any]:
    """The text of a stream, piece by piece, where pieces do not follow measured times."""
    if case.request.speculation == "auto":
        return
    try:
        for chunk in engine.submit(case.request):
            yield [chunk.text, list(chunk.tokens), chunk.finish_reason]
    except MarithError as error:
        yield f"{type(error).__name__}: {error}"


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """One line for each case that is not what it was, or that is gone. New cases are no change."""
    for name, old in sorted(before.items()):
        new = after.get(name)
        if not _alike(old, new):
            parts = old if isinstance(old, dict) and isinstance(new, dict) else {}
            fields = [key for key in parts if not _alike(parts[key], new.get(key))]
            changed = f"{_short(old, fields)} → {_short(new, fields)}"
            yield f"{name}: {', '.join(fields) or 'all'}: {changed}"


def _alike(old: Any, new: Any) -> bool:
    """Whether two results are one; the last bits of a number may follow the size of a batch."""
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= CLOSE
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_alike, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_alike(old[key], new[key]) for key in old)
    return bool(old == new)


def _short(value: Any, fields: list[str]) -> str:
    shown = {key: value.get(key) for key in fields} if fields else value
    return json.dumps(shown, ensure_ascii=False)[:200]


def record_of(tree: Path, into: Path) -> dict[str, Any]:
    """The record of a tree, made by its own cases in a process of its own.

    An old tree's cases name what the old tree names, so a rename here is no error there.
    """
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'core'}{os.pathsep}{tree}"}
    command = [sys.executable, str(tree / "tests" / "golden.py"), "--record", str(into)]
    subprocess.run(command, env=environment, check=True, cwd=tree)
    return dict(json.loads(into.read_text()))


def main(against: str = "HEAD", record: Path | None = None) -> None:
    """Compare the working tree with another commit; exit 1 where anything differs."""
    if record is not None:
        where = Path(marith.__file__).parents[2]
        typer.echo(f"recording {where}", err=True)
        record.write_text(json.dumps(recorded()))
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(other)], check=True)
        subprocess.run(["git", "-C", str(other), "checkout", "-q", against], check=True)
        before = record_of(other, Path(folder, "before.json"))
        after = record_of(ROOT, Path(folder, "after.json"))
    lines = list(differences(before, after))
    added = len(after.keys() - before.keys())
    typer.echo("\n".join(lines) or f"{len(before)} results, all as at {against}; {added} are new")
    raise typer.Exit(bool(lines))


if __name__ == "__main__":
    typer.run(main)
