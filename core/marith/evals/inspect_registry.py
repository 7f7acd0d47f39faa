"""Register marith with Inspect AI, which finds this module by the entry point `inspect_ai`.

The module imports no torch, because Inspect imports it at every start.
"""

from __future__ import annotations

from inspect_ai.model import ModelAPI, modelapi

from marith.evals.scorers import classifier, function, length, perplexity, vader
from marith.evals.tasks import sentiment, texts, toxicity

__all__ = [
    "classifier",
    "function",
    "length",
    "marith",
    "perplexity",
    "sentiment",
    "texts",
    "toxicity",
    "vader",
]  # fmt: skip


@modelapi("marith")
def marith() -> type[ModelAPI]:
    """Return the class of the provider for `--model marith/NAME`."""
    from marith.evals.provider import MarithAPI

    return MarithAPI
