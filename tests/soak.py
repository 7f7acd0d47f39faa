"""Texts of all lengths for an hour, with too little memory: `python tests/soak.py --minutes 60`.

Prompts have 5 to 4,000 tokens; some texts are cancelled, some have banned words, a grammar or an
adapter. Memory for keys and values holds a few of them, so that requests wait and what is kept is
evicted all the time. Each text has to be the one that was made alone, and memory has to stay level.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from peft import LoraConfig, get_peft_model

from marith import Ban, Engine, Grammar, Prompted, Request, Sampling, Stop
from marith.testing import tiny_model, tiny_tokenizer

CONTEXT = 4200
CACHE_BYTES = 6_000_000  # 12,000 tokens of this model
LONGEST = 4000
FORMULAS = ("M", "2*x - M", "M - 0.9*union(x, M)", "x - 0.6*y + M", "0.5*a + M")
PATIENCE = 600.0  # seconds after which a text counts as lost


def adapter(model: Any, folder: Path) -> str:
    """A random adapter of the model, as peft saves it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = LoraConfig(r=4, init_lora_weights=False, target_modules=["q_proj", "down_proj"])
        get_peft_model(model, config).save_pretrained(str(folder), save_embedding_layers=False)
    return str(folder)


def request_of(kind: int, adapter_path: str) -> Request:
    """The same request for the same number."""
    draw = random.Random(kind)
    length = round(5 * (LONGEST / 5) ** draw.random())
    shared = random.Random(kind % 3).choices("abcdefghij", k=LONGEST)
    own = draw.choices("klmnop", k=draw.randint(1, 9))
    prompt = " ".join([*shared[: max(0, length - len(own))], *own])
    terms = {"x": "q w e", "y": "z " * 30, "a": Prompted(adapter=adapter_path)}
    grammar = Grammar.regex("[a-h]{5,60}") if kind % 5 == 3 else None
    return Request(
        prompt,
        FORMULAS[kind % len(FORMULAS)],
        terms,
        Sampling(seed=kind, temperature=0.9),
        Stop(draw.choice([3, 12, 40, 80])),
        grammar=grammar,
        ban=Ban(("b", "d")) if kind % 7 == 2 else None,
    )


@dataclass
class Soak:
    """One engine, the texts that were made alone, and what has come out since."""

    engine: Engine
    requests: list[Request]
    texts: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)  # resident megabytes, now and then
    ended: bool = False

    def call(self, seed: int) -> None:
        """One caller: whole texts, streams, and some that leave."""
        draw = random.Random(seed)
        while not self.ended:
            kind = draw.randrange(len(self.requests))
            try:
                self._one(draw, kind)
            except Exception as error:
                self.wrong.append(f"text {kind}: {type(error).__name__}: {error}")

    def _one(self, draw: random.Random, kind: int) -> None:
        ticket = self.engine.submit(self.requests[kind])
        if draw.random() < 0.25:
            if draw.random() < 0.5:
                next(iter(ticket), None)
            ticket.cancel()
            self.done["cancelled"] += 1
            return
        told = ticket.result(PATIENCE).text
        self.done["texts"] += 1
        if told != self.texts[kind]:
            self.wrong.append(f"text {kind}: {told!r}, not {self.texts[kind]!r}")

    def watch(self, minutes: float) -> None:
        """Note the memory now and then until the time is over."""
        lanes = self.engine._registry.base.runner.lanes  # type: ignore[union-attr]
        end, process = time.monotonic() + 60 * minutes, psutil.Process()
        while time.monotonic() < end:
            time.sleep(min(30.0, 60 * minutes / 20))
            self.memory.append(process.memory_info().rss / 1e6)
            status = self.engine.status()
            print(
                f"{self.memory[-1]:.0f} MB, {lanes.nbytes / 1e6:.1f} MB of keys and values, "  # type: ignore[attr-defined]
                f"{status.running} run, {status.waiting} wait, {dict(self.done)}, "
                f"{len(self.wrong)} wrong",
                flush=True,
            )
        self.ended = True

    def judge(self) -> None:
        """Whether memory grew between the second third and the last."""
        third = len(self.memory) // 3
        before, after = self.memory[third : 2 * third], self.memory[2 * third :]
        if before and max(after) > 1.05 * max(before) + 8:
            self.wrong.append(f"memory grew from {max(before):.0f} to {max(after):.0f} MB")


def run(minutes: float, callers: int, kinds: int) -> Soak:
    """All of it; what went wrong is in the result."""
    torch.manual_seed(0)
    path = adapter(tiny_model(seed=1), Path(tempfile.mkdtemp()))
    requests = [request_of(kind, path) for kind in range(kinds)]

    def loaded(**limits: int) -> Engine:
        model = tiny_model(seed=1, sharpness=2.0, context_length=CONTEXT)
        return Engine.load(model, tokenizer=tiny_tokenizer(), **limits)

    with loaded() as engine:
        texts = [engine.submit(one).result(PATIENCE).text for one in requests]
    with loaded(cache_bytes=CACHE_BYTES) as engine:
        soak = Soak(engine, requests, texts)
        threads = [threading.Thread(target=soak.call, args=[i]) for i in range(callers)]
        for thread in threads:
            thread.start()
        soak.watch(minutes)
        for thread in threads:
            thread.join()
        end, lanes = time.monotonic() + 60, engine._registry.base.runner.lanes  # type: ignore[union-attr]
        while not engine.status().idle and time.monotonic() < end:
            time.sleep(0.1)
        if lanes.busy:
            soak.wrong.append(f"{lanes.busy} lanes are held in the end")
    soak.judge()
    return soak


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--callers", type=int, default=24)
    parser.add_argument("--kinds", type=int, default=96)
    asked = parser.parse_args()
    out = run(asked.minutes, asked.callers, asked.kinds)
    print("\n".join(out.wrong[:20]) or "nothing wrong")
    raise SystemExit(bool(out.wrong))
