"""Replies to the messages of `marith eval toxicity`, by the bare model and detoxified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marith import Options
from marith.demo.shown_requests import replies_to
from marith.evals.pocket_texts import HOSTILE_MESSAGES, records
from marith.models import attribute

MESSAGES = 16


class Replies(NamedTuple):
    """For each message, the reply of the bare model and that of the formula."""

    bare: list[str]
    detoxified: list[str]


def messages(count: int = MESSAGES) -> list[str]:
    """The first messages of the evaluation."""
    return [record["text"] for record in records(HOSTILE_MESSAGES)[:count]]


def replies(options: Options, seed: int) -> Replies:
    """The replies as the evaluation draws them: temperature 1, seeds that count up from `seed`."""
    pairs = [
        replies_to(message, options.over({"temperature": 1.0, "seed": seed + i}))
        for i, message in enumerate(messages())
    ]
    tickets = [[request.submit() for request in way] for way in zip(*pairs, strict=True)]
    return Replies(*([ticket.result().text.strip() for ticket in way] for way in tickets))


def toxicity(texts: Sequence[str]) -> list[float]:
    """Return the probability of toxicity that the embedded classifier gives to each text."""
    return attribute(texts, "pocket-toxicity", "toxic")
