"""An engine over tiny real models, and the reference decoder that it must agree with."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.reference import Reference
from tokenizers import Regex, pre_tokenizers

from marith import Engine, Request, Sampling, Stop
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

FORMULAS = (
    "M",
    "2*x - M",
    "M - 0.96*union(x, M)",
    "M - 0.96*union(x, M) + 0.04*C",
    "x - 0.6*y + 2*union(x, y) + intersection(M, big)",
    "M + 1.5*(big - x)",
    "big",
    "0.5*A + M",
    "supersede(A, 2*M - x)",
    "unscaled(M + 0.5*x)",
    "1.5*M.min_p(0.1) - 0.5*big",
    "M.top_k(5) + x",
    "M + uniform()",
    "0*y + M + 2*C",
    "M - 0.5*x + 1.5*sure - 0.5*C",
)


@dataclass(frozen=True)
class CheckedEngine:
    """An engine, the reference decoder that specifies it, and the terms that both know."""

    engine: Engine
    reference: Reference
    terms: dict[str, Any]


def build(folder: Path) -> Iterator[CheckedEngine]:
    """Yield the engine. Its second checkpoint and its classifier are saved in `folder`."""
    other, judge = str(folder / "other"), str(folder / "judge")
    base_tokenizer, letters = tiny_tokenizer(), tiny_tokenizer()
    letters.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    base, second, classifier = tiny_model(seed=1), tiny_model(seed=2), tiny_classifier(seed=3)
    second.save_pretrained(other)
    base_tokenizer.save_pretrained(other)
    classifier.save_pretrained(judge)
    letters.save_pretrained(judge)
    words = Vocabulary(base_tokenizer, 28, [1])
    reference = Reference(
        {
            None: (base, words),
            other: (second, words),
            judge: (classifier, Vocabulary(letters, 28)),
        }
    )
    terms = {
        "x": "q w e r t y",
        "y": "z z",
        "big": {"formula": f'prompted("k k", model="{other}")'},
        "A": {"formula": 'ngram(texts=["a b c a b d", "b c a"], order=3)'},
        "C": {"formula": f'classifier("{judge}", label=1, candidates=5)'},
        "sure": {"formula": f'classifier("{judge}", label=1, coverage=0.7, read_prompt=True)'},
    }
    with Engine.load(base, tokenizer=base_tokenizer, max_lanes=24) as engine:
        yield CheckedEngine(engine, reference, terms)


def request(
    checked: CheckedEngine, formula: str, i: int, sampling: Sampling | None = None
) -> Request:
    draw = random.Random(i)
    letters = [draw.choice("abcdefghij") for _ in range(draw.randint(1, 40))]
    return Request(
        " ".join(letters),
        formula,
        checked.terms,
        sampling or Sampling(seed=i),
        Stop(draw.randint(1, 24), ("zq", "ab")),
    )


def wait_until_idle(engine: Engine) -> None:
    """Wait until the engine has finished its step and released cancelled requests."""
    end = time.monotonic() + 20
    while not engine.status().idle and time.monotonic() < end:
        time.sleep(0.002)
    assert engine.status().idle
