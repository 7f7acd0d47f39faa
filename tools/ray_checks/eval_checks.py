"""`marith eval --ray` makes what one process makes, goes on after it was stopped, or is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import ray

from marith.errors import ModelError
from marith.evals.experiment.ray_actors import result_of
from tools.ray_checks import cluster
from tools.ray_checks.checking import Check, until

# With a seed whose texts are clear of rounding ties: of others a text of some hundred ends
# differently from run to run, in one process too.
FORMULAS = ("M", "formal", "M - 0.9*union(rude, M)")
TERMS = ("formal=Speak formally.", "rude=You are rude.")
TABLES = ("table.csv", "table.md")
PROMPTS, SAMPLES = 30, 2
TEXTS = len(FORMULAS) * PROMPTS * SAMPLES
OWN = """
import marith

def twice(term: marith.Formula) -> marith.Formula:
    return 2 * term

marith.define("twice", twice)
"""


def command(out: Path, *more: str, formulas: tuple[str, ...] = FORMULAS) -> list[str]:
    """An evaluation of pocket, whose texts take some seconds."""
    words = [sys.executable, "-m", "marith", "eval", "texts", "--out", str(out), "--yes"]
    words += ["--measure", "length", "--measure", "perplexity", "--max-tokens", "16"]
    words += ["--n", str(PROMPTS), "--samples", str(SAMPLES), "--seed", "3"]
    words += [word for formula in formulas for word in ("--formulas", formula)]
    return words + [word for term in TERMS for word in ("--term", term)] + [*more]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True)


@ray.remote
class Other:
    """An actor of another application."""

    def begun(self) -> bool:
        return True


@ray.remote(num_cpus=0)
def sleep() -> None:
    time.sleep(60)


class Evaluations:
    """One evaluation, made by one process and in other ways, over the same cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address

    def same(self, out: Path) -> None:
        """Assert that a folder has the texts and the tables that one process has made."""
        one = self._folder / "one"
        differ = [(a, b) for a, b in zip(texts(one), texts(out), strict=True) if a != b]
        assert not differ, f"{len(differ)} texts differ, the first: {differ[0]}"
        for name in TABLES:
            assert (one / name).read_bytes() == (out / name).read_bytes(), f"{name} differs"

    def two_actors_make_the_table_of_one_process(self) -> str:
        for name, more in (("one", ()), ("two", ("--ray", "2"))):
            done = run(*command(self._folder / name, *more))
            assert done.returncode == 0, done.stderr
        self.same(self._folder / "two")
        return f"{TEXTS} texts, and the tables of them are equal byte for byte"

    def a_stopped_evaluation_goes_on(self) -> str:
        """Killed while it makes texts, once; the next one ends."""
        out = self._folder / "stopped"
        words = command(out, "--ray", "2")
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: count(out) >= 20, 90, "some texts")
        process.kill()
        process.wait()
        kept = count(out)
        assert kept < TEXTS
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert f"made before: {kept} of {TEXTS} texts" in done.stderr
        self.same(out)
        return f"killed after {kept} of {TEXTS} texts; the table is that of one process"

    def an_actor_that_dies_is_made_anew(self) -> str:
        out = self._folder / "killed"
        before = {process.pid for process in actors()}
        words = command(out, "--ray", "2")
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(lambda: count(out) >= 20, 90, "some texts")
        victim = next(actor for actor in actors() if actor.pid not in before)
        cluster.kill(victim)
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()
        self.same(out)
        return "an actor was killed; the table is that of one process"

    def own_methods_are_known_to_actors(self) -> str:
        own = self._folder / "own_methods_of_check.py"
        own.write_text(OWN, encoding="utf-8")
        more, out = ("--ray", "2", "--import", str(own)), self._folder / "own"
        done = run(*command(out, *more, formulas=("twice(formal)",)))
        assert done.returncode == 0, done.stderr
        return "--import holds for them too"

    def what_cannot_be_done_is_one_sentence(self) -> str:
        gone = 'prompted(model="/no/such/model")'
        for formula, actors_, words in (
            ("M", "99", "the cluster has 4 cores, and --ray asks for 99"),
            ("M", "0", "ray is a whole number from 1"),
            (f"M + 0.1*{gone}", "2", "/no/such/model"),
        ):
            out = self._folder / f"refused {actors_}"
            done = run(*command(out, "--ray", actors_, formulas=(formula,)))
            assert done.returncode == 2, done.stderr
            assert words in done.stderr, done.stderr
            assert "Traceback" not in done.stderr, done.stderr
        return "too many actors, none, and an error of an actor's own"

    def actors_that_wait_are_noted(self) -> str:
        """Three of the four cores are used by others, until the note has been printed."""
        out = self._folder / "waits"
        others = [Other.options(num_cpus=1).remote() for _ in range(3)]
        ray.get([other.begun.remote() for other in others])
        words = command(out, "--ray", "2", formulas=("M",))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        noted = b""
        while b"1 core of the cluster is free now" not in noted:
            line = process.stderr.readline()
            assert line, noted.decode()
            noted += line
        for other in others:
            ray.kill(other)
        _, noted = process.communicate()
        assert process.returncode == 0, noted.decode()
        return "a note while cores are used by others, and the texts once they are free"

    def errors_of_ray_are_one_sentence(self) -> str:
        """A call that is cancelled, and an actor that has ended: both are errors of marith."""
        other = Other.options(num_cpus=1).remote()
        ray.get(other.begun.remote())
        ray.kill(other)
        sleeping = sleep.remote()
        ray.cancel(sleeping)
        for reference, words in ((sleeping, "failed"), (other.begun.remote(), "ended")):
            problem = problem_of(reference)
            assert f"an actor of Ray {words}" in problem, problem
        return "a call that is cancelled, and an actor that has ended"

    @property
    def checks(self) -> list[Check]:
        return [
            self.two_actors_make_the_table_of_one_process,
            self.a_stopped_evaluation_goes_on,
            self.an_actor_that_dies_is_made_anew,
            self.own_methods_are_known_to_actors,
            self.what_cannot_be_done_is_one_sentence,
            self.actors_that_wait_are_noted,
            self.errors_of_ray_are_one_sentence,
        ]


def problem_of(reference: Any) -> str:
    """What the ModelError says that a call of Ray raises; "" where it raises none."""
    try:
        result_of(reference)
    except ModelError as error:
        return str(error)
    return ""


def texts(out: Path) -> list[dict[str, Any]]:
    """The texts of a folder, but for `calls`: how much was drafted is no part of a text.

    In one order: a run that goes on begins with a few of every formula again.
    """
    lines = (out / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    made = [{**json.loads(line), "calls": None} for line in lines]
    return sorted(made, key=lambda text: (text["line"], text["row"], text["sample"]))


def count(out: Path) -> int:
    """How many whole texts a folder has."""
    file = out / "texts.jsonl"
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    return sum(line.endswith(b"\n") and bool(json.loads(line)) for line in lines)


def actors() -> list[psutil.Process]:
    return cluster.replica_processes("TextActor")
