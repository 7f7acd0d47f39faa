"""A chat model over a tiny checkpoint, and what the engine itself says in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import marith
from langchain_marith import ChatMarith

FORMULA = "2*a - 0.5*b"
TERMS = {"a": "a b c", "b": "x y z"}
SAMPLING = {"temperature": 0.9, "seed": 5, "max_tokens": 24}

Make = Callable[..., ChatMarith]


def by_engine(model: str, prompt: Any, **options: Any) -> marith.Completion:
    asked = {"formula": FORMULA, "terms": TERMS, **options}
    sampling = marith.Sampling(temperature=0.9, seed=5)
    return marith.Engine.shared(model).generate(
        prompt, **asked, sampling=sampling, stop=marith.Stop(24)
    )
