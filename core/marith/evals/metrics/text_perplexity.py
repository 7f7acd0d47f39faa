"""How likely are texts? Perplexities of exactly their tokens, under the bare model or a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from marith.engine.engine import Engine
from marith.evals.experiment.texts import Text, at_row
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts
from marith.formula.meaning.binding import BARE, Terms

_LARGEST = 700  # nats, of which the exponential is still a float


@dataclass(frozen=True, slots=True)
class Perplexity(Metric):
    """A column of perplexities of exactly the sampled tokens under `M`, as `terms` have it.

    With `formulas` each text's is under the one that they have for its line.
    """

    terms: Terms
    formulas: Mapping[str, str] = field(default_factory=dict)
    name: str = "perplexity"
    better: Better = "lower"
    of_engine: ClassVar[bool] = True

    def described(self) -> Mapping[str, Any]:
        """What it is taken under; formulas and terms are settings already."""
        return {"under": "each formula" if self.formulas else BARE}

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """Texts asked about together share passes. An empty one has no number.

        Infinite is that of a text with a token that the formula rules out.
        """
        assert engine is not None

        def ask(texts: Sequence[Text]) -> list[float | None]:
            tickets = []
            for text in texts:
                formula = self.formulas.get(text.line, BARE)
                with at_row(text.row):
                    tickets.append(
                        engine.submit_scoring(text.prompt, text.tokens, formula, self.terms)
                    )
            return [_exponential(ticket.result().logprobs) for ticket in tickets]

        return ask


def _exponential(logprobs: Sequence[float]) -> float | None:
    """A perplexity; None of no tokens."""
    if not logprobs:
        return None
    nats = -sum(logprobs) / len(logprobs)
    return math.exp(nats) if nats < _LARGEST else math.inf
