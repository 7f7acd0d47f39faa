"""Replies to the messages of `marith eval toxicity`, by the bare model and by the formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marith import Options
from marith.demo.shown_requests import replies_to
from marith.evals.pocket_texts import HOSTILE_MESSAGES, records
from marith.models import attribute

MESSAGES = 16
TEMPERATURE = 0.5  # at 1, half of pocket's replies contain a broken word


class Replies(NamedTuple):
    """The replies of the bare model and of the formula, one of each for every message."""

    bare: list[str]
    detoxified: list[str]


def messages() -> list[str]:
    """Return the first messages of the evaluation."""
    return [record["text"] for record in records(HOSTILE_MESSAGES)[:MESSAGES]]


def replies(options: Options, seed: int) -> Replies:
    """Return replies to the messages, sampled with the seeds from `seed` on."""
    pairs = [
        replies_to(message, options.over({"temperature": TEMPERATURE, "seed": seed + i}))
        for i, message in enumerate(messages())
    ]
    tickets = [[request.submit() for request in way] for way in zip(*pairs, strict=True)]
    return Replies(*([ticket.result().text.strip() for ticket in way] for way in tickets))


def toxicity(texts: Sequence[str]) -> list[float]:
    """Return the probability of toxicity that the embedded classifier gives to each text."""
    return attribute(texts, "pocket-toxicity", "toxic")
