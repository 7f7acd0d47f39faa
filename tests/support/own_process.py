"""A program for tests that need a process of their own: its threads, and its end.

It prints "ready" once all is imported, then the bits of a distribution, then its findings as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import torch
from support.held_passes import model_of

from benchmarks.inflating import inflate
from marith import Engine, Stop
from marith.engine.threads import workers
from marith.testing import tiny_model, tiny_tokenizer

PROMPT = "Tell me a story.", "2*formal - M", {"formal": "Be formal."}
ADAPTED = {
    "C": {"formula": 'classifier("pocket-toxicity", label="civil")'},
    "rude": {"formula": 'prompted(adapter="pocket-rude")'},
}


def bits(engine: Engine) -> str:
    """Return a hash of a distribution that changes with its last bit."""
    return hashlib.sha256(engine.next_logprobs(*PROMPT).numpy().tobytes()).hexdigest()


def threads(engine: Engine) -> dict[str, Any]:
    """Return the numbers of OpenMP threads of the engine and of its caller."""
    engine.generate("Hello!", "M + 0.1*rude + 0.1*C", ADAPTED, stop=Stop(2))
    passes: set[int] = set()
    model_of(engine).register_forward_pre_hook(lambda *_: passes.add(torch.get_num_threads()))
    engine.score("Hello!", "Good day.")
    return {"caller": torch.get_num_threads(), "passes": [*passes]}


def idle() -> dict[str, Any]:
    """Return the number of workers while a wide engine runs, and those left once it is idle."""

    def tasks() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    def look(*_: Any) -> None:
        during.update(tasks())

    with Engine.load(inflate(tiny_model(), 1024, 2, 1024), tokenizer=tiny_tokenizer()) as engine:
        alone = tasks()
        torch.ones(1 << 20).exp()
        before, during = tasks(), set[str]()
        model_of(engine).register_forward_pre_hook(look)
        engine.generate("a b", stop=Stop(20, min_tokens=20))  # the first pass makes the workers
        end = time.monotonic() + 30
        while tasks() - before and time.monotonic() < end:
            time.sleep(0.01)
        after = tasks()
    return {
        "during": len(during - before), "after": len(after - before),
        "callers": len(after & (before - alone)),
    }  # fmt: skip


def compute(begun: threading.Event) -> None:
    """Compute as a load whose caller has left, still running when the interpreter ends."""
    begun.set()
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        torch.zeros(64, 64) @ torch.zeros(64, 64)


def main() -> None:
    Engine.load(tiny_model(), tokenizer=tiny_tokenizer()).close()  # all that a load imports
    print("ready", flush=True)
    found: dict[str, Any] = {"threads": torch.get_num_threads()}
    with Engine.shared("pocket") as engine:
        print(bits(engine), flush=True)
        found["taken"] = threads(engine)
    if os.path.isdir("/proc/self/task"):
        found["idle"] = idle()
    found["peft"] = "peft" in sys.modules
    print(json.dumps(found), flush=True)
    begun = threading.Event()
    left = threading.Thread(
        target=workers.run_in_thread, args=(lambda: compute(begun),), daemon=True
    )
    left.start()
    begun.wait()


if __name__ == "__main__":
    main()
