"""What only a process of its own shows, as a program: how it forks, what threads it has, its end.

It prints "ready" once all is imported, then the bits of a distribution, then what it found as JSON.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import threading
import time
from typing import Any

import torch
from support.forking import SECONDS, fork, shared_text, text_of, told_by

from marith import Engine, Request, Stop
from marith.engine.threads import workers
from marith.testing import inflate, tiny_model, tiny_tokenizer

PROMPT = "Tell me a story.", "2*formal - M", {"formal": "Be formal."}
ADAPTED = {
    "C": 'classifier("pocket-toxicity", label="civil")',
    "rude": 'prompted(adapter="pocket-rude")',
}


def bits(engine: Engine) -> str:
    """A distribution, to the last bit."""
    return hashlib.sha256(engine.next_logprobs(*PROMPT).numpy().tobytes()).hexdigest()


def _serve() -> list[str]:
    """A worker of a server that loaded the model before it forked, with threads of its own."""
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(shared_text())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def pools(engine: Engine) -> list[Any]:
    """What workers of every method say that the process itself does not."""
    anew = [multiprocessing.get_context(method).Pool(1) for method in ("spawn", "forkserver")]
    later = [pool.map_async(shared_text, [0]) for pool in anew]
    want = shared_text()
    tickets = [engine.submit(Request("Tell me a story.", stop=Stop(400))) for _ in range(4)]
    children = [fork(_serve) for _ in range(3)]
    wrong = [told for child in children if (told := told_by(child)) != [want] * 3]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        texts = pool.map_async(shared_text, range(4)).get(SECONDS)
    texts += [text for result in later for text in result.get(60)]
    for pool in anew:
        pool.terminate()
    assert all(ticket.result(60).tokens for ticket in tickets)
    texts.append(text_of(engine, 20.0))
    return wrong + [text for text in texts if text != want]


def forked(engine: Engine) -> dict[str, Any]:
    """A child that computes by itself, and how many threads the engine and its caller take."""
    engine.generate("Hello!", "M + 0.1*rude + 0.1*C", ADAPTED, stop=Stop(2))
    passes: set[int] = set()
    model = engine._registry.base.runner.passes.reader
    model.register_forward_pre_hook(lambda *_: passes.add(torch.get_num_threads()))
    engine.score("Hello!", "Good day.")
    torch.ones(1 << 20).exp()  # by a team, whose workers the child does not have
    child = os.fork()
    if child == 0:
        torch.ones(1 << 20).exp()
        engine.score("Hello!", "Good day.")
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"child": status, "caller": torch.get_num_threads(), "passes": [*passes]}


def idle() -> dict[str, Any]:
    """How many workers a wide engine has while it runs, and it and its caller once it is idle."""

    def tasks() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    def look(*_: Any) -> None:
        during.update(tasks())

    with Engine.load(inflate(tiny_model(), 1024, 2, 1024), tokenizer=tiny_tokenizer()) as engine:
        alone = tasks()
        torch.ones(1 << 20).exp()
        before, during = tasks(), set[str]()
        engine._registry.base.runner.passes.reader.register_forward_pre_hook(look)
        engine.generate("a b", stop=Stop(20))
        end = time.monotonic() + 30
        while tasks() - before and time.monotonic() < end:
            time.sleep(0.01)
        after = tasks()
    return {
        "during": len(during - before), "after": len(after - before),
        "callers": len(after & (before - alone)),
    }  # fmt: skip


def compute(begun: threading.Event) -> None:
    """A load that its caller has given up, still at it when the interpreter ends."""
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
        if hasattr(os, "fork"):
            found |= {"pools": pools(engine), "forked": forked(engine)}
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
