"""Random texts with a changed number of their formula, and the first flip that is predicted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import marith
from marith import Completion, Engine, Request, Sampling, Stop
from marith.inspection.formula_numbers import NumberedFormula

FORMULAS = (
    "2*x - M",
    "M - 0.9*union(x, M)",
    "M + 1.5*(y - x)",
    "0.5*x + 0.3*y + 0*M + 0.2*A",
    "mixture(0.3, x, 0.7, y)",
    "(M - 0.5*x).min_p(0.05) + 0.2*y",
    "M.temperature(0.8) + 0.7*intersection(x, y)",
    "where(entropy(M) > 2.5, x, 1.5*M - 0.5*y)",
    "M + 0.5*decay(3)*x - 0.2*relu(y - M)",
    "self_debias(M, x, decay=20, floor=0.1)",
    "M + first(4)*sigmoid(2*jsd(x, y) - 0.5)*x",
    "supersede(A, 1.5*M - 0.5*x)",
)
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.0, "repetition_penalty": 1.3},
    {"temperature": 1.0, "top_p": 0.8, "presence_penalty": 0.4},
)


@dataclass(frozen=True)
class Case:
    """A request, the index of a number of its formula, and another value for this number."""

    request: Request
    number: int
    value: float


def cases(terms: dict[str, Any], seed: int) -> Iterator[Case]:
    """Yield random cases without end. Half are greedy, and half have temperature 1."""
    draw = random.Random(seed)
    while True:
        formula = draw.choice(FORMULAS)
        letters = " ".join(draw.choice("abcdefghij") for _ in range(draw.randint(1, 12)))
        sampling = Sampling(seed=draw.randrange(2**32), **draw.choice(SAMPLINGS))
        stop = Stop(draw.randint(4, 20), draw.choice([(), ("zq", "b")]))
        request = Request(letters, formula, terms, sampling, stop, draw.choice(["auto", None]))
        count = len(NumberedFormula.of(formula).numbers)
        value = round(draw.choice([draw.uniform(0, 2), draw.uniform(0, 0.4)]), 3)
        yield Case(request, draw.randrange(count), value)


def flips(engine: Engine, case: Case) -> tuple[int | None, int | None] | None:
    """Return the predicted first flip, and that of the regenerated text. None if there is no case.

    There is no case if the formula is invalid with the value.
    """
    completion = engine.submit(case.request).result()
    kept = marith.what_if(engine, case.request, completion)
    redrawn = kept.at(case.number, [case.value])
    if redrawn.refused[0] is not None:
        return None
    changed = replace(case.request, formula=kept.changed(case.number, case.value))
    return redrawn.first_flip[0], first_difference(completion, engine.submit(changed).result())


def first_difference(text: Completion, other: Completion) -> int | None:
    """Return the first position at which two texts differ. The end of a text counts as a token."""
    pairs = zip(_marked(text), _marked(other), strict=False)
    return next((place for place, (one, two) in enumerate(pairs) if one != two), None)


def _marked(completion: Completion) -> list[int | None]:
    ended = completion.finish_reason == "stop" and completion.stop_string is None
    return [*completion.tokens, *[None] * ended]
