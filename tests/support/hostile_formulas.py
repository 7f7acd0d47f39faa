"""Hostile formulas and tables of terms, which a server must refuse.

`PYTHONPATH=tests .venv/bin/python -m support.hostile_formulas` refuses all of them, and prints for
how long another thread was held up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import marith

LEAVES = (
    'ngram("/etc/passwd")', 'ngram("/dev/zero", order=8)', 'ngram(path="~/.ssh/id_rsa")',
    'ngram(texts=["a b"])', "ngram(online=True)", 'ngram(None, 2, ["a"], True)',
    'classifier("pocket-toxicity")', 'classifier("org/name", label="x", candidates=9)',
    'classifier(model="../../etc")', 'classifier("/proc/self/environ", guide=M)',
    'prompted(model="/etc/passwd")', 'prompted("x", model="org/name")',
    'prompted("x", adapter="pocket-rude")', 'prompted(adapter="/etc")',
    'prompted(vectors={"/etc/passwd": 1})', 'prompted("x", vectors={})',
    'prompted("x", positions="answer")', 'prompted(template="plain")',
    'prompted("x", template="chat")', 'prompted("x", hide="(a+)+$")', 'prompted(hide="")',
    'prompted(options={"chat_template": "{{ 7*7 }}"})', 'prompted("x", options={"a": 1})',
    'prompted("x", "append", "h")', 'prompted("x", "append", None, "/m")', "prompted(exit_layer=0)",
    'prompted(**{"model": "/m"})', 'prompted(modle="x")',
)  # fmt: skip
# What a terminal obeys.
OBEYED = [
    "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\click", "a\rb", "a\bb",
    "\x9b31m", "left\u202eright", "a\u2066b", "\u2028", "\x7f", "[bold red]x[/]",
]  # fmt: skip
PLACES = (
    "{}", "M + 0.5*{}", "M - 0.96*union({}, M)", "cfg(M, {})", "intersection(M, {})",
    "M.top_k(5) + {}", "supersede({}, M)", "where(first(3), {}, M)", "mixture(1, M, 2, {})",
    "M + jsd(M, {})*(M - x)",
)  # fmt: skip
CODE = (
    "__import__('os').system('id')", "open('/etc/passwd')", "eval('M')", "M.__class__",
    "().__class__", "M.__init__(M)", "lambda: M", "[M for _ in M]", "(M := M)",
    "M if M else M", "M[0]", "M ** 9",
    "f'{M}'", "b'x' + M", "M; M", "M = M", "...", "M @ M", "M and M", "not M", "M # x", "", "@",
    "\0",
    "getattr(M, 'x')", "prompted('x').mode", "load_file('/etc/passwd')", "unknown", "M + 'a'", "5",
    "yield M", 'prompted(*["x"])', "await M", "M << 2", "'/etc/passwd'", "{'model': '/m'}",
    "M < M", "prompted(x for x in M)",
)  # fmt: skip


def written(formula: str) -> dict[str, str]:
    """Return a term that is a formula, as a request over HTTP has it."""
    return {"formula": formula}


def nested(depth: int) -> str:
    formula = "b"
    for _ in range(depth):
        formula = f"cfg(a, {formula})"
    return formula


SIZES: tuple[tuple[Any, Any], ...] = (
    ("M + " * 2_000 + "M", {}),
    ("(" * 1_900 + "M" + ")" * 1_900, {}),
    ("-" * 3_900 + "M", {}),
    ("M" + "*0.5" * 600 + "*" * 2, {}),
    ("+".join(f'prompted("{i}")' for i in range(17)), {}),
    ("M + t1", {f"t{i}": "You are kind." for i in range(17)}),
    ("M + t", {"t": "You are kind. " * 400}),
    ("M + t", {"t": "x", "u" * 4_000: "y"}),
    (f"dola(M, {', '.join(map(str, range(20)))})", {}),
    (" + ".join(f"jsd(M, a)*{i + 1}*M" for i in range(40)), {"a": "kind"}),
    (nested(12), {"a": "kind", "b": "rude"}),
    (nested(58), {"a": "kind", "b": "rude"}),
    (
        "t9",
        {"t0": "kind", **{f"t{i}": written(f"cfg(t{i - 1}, t{i - 1})") for i in range(1, 10)}},
    ),
    ("p", {"p": written("q + M"), "q": written("p + M")}),
    ("M + t", {"t": written("u"), "u": written("t")}),
    ("M", {"t": {"formula": "M", "hide": "(a+)+$"}}),
    ("M", {"t": {"formula": ["M"]}}),
    ("M", {"t": {"classifier": "pocket-toxicity"}}),
    ("M", {"M": "You are rude."}),
    ("M", {"M": written('prompted(model="/m")')}),
    ("M", {"t": {"system": "x", "hide": "(a+)+$"}}),
    ("M", {"t": {"ngram": "/etc/passwd"}}),
    ("M", {"t": 5}),
    ("M", {"a b": "x"}),
    ("M", ["a"]),
    (5, {}),
    (None, {}),
)


def corpus() -> Iterator[tuple[Any, Any]]:
    """Yield formulas with their terms. Each must be refused."""
    for leaf in LEAVES:
        for place in PLACES:
            yield place.format(leaf), {"x": "You are kind."}
        yield "M + t", {"t": written(leaf)}
        yield "M + s", {"s": written("2*t - M"), "t": written(f"0.5*({leaf})")}
    for code in CODE:
        yield code, {}
    yield from SIZES


def longest_hold(engine: marith.Engine) -> float:
    """Return the longest pause in seconds of a thread that sleeps for 1 ms, meanwhile."""
    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.wait(0.001):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticking = threading.Thread(target=tick)
    ticking.start()
    for formula, terms in corpus():
        try:
            engine.generate("Hello!", formula, terms, trusted=False)
        except marith.MarithError:
            continue
        raise AssertionError(f"answered: {formula!r}, {terms!r}")
    done.set()
    ticking.join()
    return max(gaps)


if __name__ == "__main__":
    with marith.Engine.load("pocket") as loaded:
        holds = ", ".join(f"{1e3 * longest_hold(loaded):.1f}" for _ in range(3))
    print(f"another thread was held for at most {holds} ms")
