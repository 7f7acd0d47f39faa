"""One application that several processes run, as torchrun starts them: the first one prints.

Each line is a JSON object, so that a test reads them one by one. Called with a model's directory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from marith import Engine, MarithError, ModelError, Prompted, Sampling, Stop
from marith.scoring.checkpoints import reading

CHAT = [{"role": "user", "content": "Tell me of your day."}]
TERMS: dict[str, Any] = {
    "rude": "You are rude.",
    "kind": "You are kind.",
    "early": Prompted(exit_layer=3),
    "coarse": Prompted(adapter="pocket-rude"),
}
FORMULAS = {  # and how much they enlarge rounding at most: all factors, over their sum
    "M": 1.0,
    "M - 0.5*rude + 0.3*kind": 1.8 / 0.8,
    "2*M - early": 3.0,
    "M - 0.96*union(rude, M) + 0.04*kind": 2.0 / 0.08,
}
PLAIN = "M - 0.5*rude + 0.3*kind"
LONG = [{"role": "user", "content": "The sea is wide and blue. " * 40}]


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def error_of(call: Any) -> str:
    try:
        call()
    except MarithError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def compared(together: Engine, alone: Engine) -> None:
    """How far log-probabilities differ, and texts of one seed, by drafts too."""
    for prompt in (CHAT, LONG):
        for formula, enlarged in FORMULAS.items():
            row, wanted = (one.next_logprobs(prompt, formula, TERMS) for one in (together, alone))
            far = (wanted.abs() / 10).clamp(min=1)  # float32 rounds −30 more than −3
            differ = ((row - wanted).abs() / far).max()
            say(formula=formula, differ=float(differ), enlarged=enlarged)
    asked = PLAIN, TERMS, Sampling(seed=3), Stop(24)
    wanted = alone.generate(CHAT, *asked).text
    for plan in (None, "auto"):
        say(text=together.generate(CHAT, *asked, speculation=plan).text, wanted=wanted)
    streamed = [chunk.text for chunk in together.stream(CHAT, *asked)]
    say(text="".join(streamed), wanted=wanted, chunks=len(streamed))
    prompts = [[{"role": "user", "content": "dogs " * i}] for i in range(1, 9)]
    futures = [together.submit_scoring(one, "They are kind.", *asked[:2]) for one in prompts]
    for one, future in zip(prompts, futures, strict=True):
        scores = alone.score(one, "They are kind.", *asked[:2])
        pairs = zip(future.result().logprobs, scores, strict=True)
        differ = max(abs(a - b) for a, b in pairs)
        say(formula=PLAIN, differ=differ, enlarged=FORMULAS[PLAIN])


def again(model: str) -> None:
    """A second engine over the same model, one that comes after it, and a model of one process."""
    asked = CHAT, "2*M - early", TERMS, Sampling(seed=3), Stop(4)
    for _ in range(2):
        with Engine.load(model, device="tp", dtype="float32") as anew:
            say(again=anew.generate(*asked).text)
        del anew
    say(apart=error_of(lambda: Engine.load(f"{model}-for-one", device="tp", dtype="float32")))


def fail_for_one() -> None:
    """The second process finds no memory for the model of one process."""
    found = reading.require_memory

    def no_memory(name: str, *rest: Any) -> None:
        if name.endswith("for-one"):
            raise ModelError("no memory for it here")
        found(name, *rest)

    reading.require_memory = no_memory


def main(model: str) -> None:
    if os.environ["RANK"] == "1":
        fail_for_one()
    together = Engine.load(model, device="tp", dtype="float32")
    say(rank=int(os.environ["RANK"]))  # no other process comes to this line
    if sys.argv[2:] == ["end"]:
        say(again=together.generate(CHAT, "2*M - early", TERMS, Sampling(seed=3), Stop(4)).text)
        again(model)
        return
    with Engine.load(model, device="cpu", dtype="float32") as alone:
        compared(together, alone)
    say(adapter=error_of(lambda: together.generate(CHAT, "M + coarse", TERMS)))
    stream = together.stream(CHAT, "M", stop=Stop(400), sampling=Sampling(temperature=2.0))
    next(stream)
    say(now="kill")  # whoever reads this kills the second process
    began = time.monotonic()
    say(streaming=error_of(lambda: [*stream]))
    say(after=error_of(lambda: together.generate(CHAT, "M", stop=Stop(4))))
    say(seconds=time.monotonic() - began)


if __name__ == "__main__":
    main(sys.argv[1])
