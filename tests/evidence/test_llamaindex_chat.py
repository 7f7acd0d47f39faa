"""How far every turn of a chat keeps a persona's voice."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence

from support.applications import Report, application

from marith.models import attribute

shown = application("llamaindex_chat")
TALKS = (
    ("What do you know about pandas?", "Where do pandas live?", "What do pandas eat?"),
    ("Describe volcanoes.", "What else do you know about volcanoes?", "Explain volcanoes to me."),
    ("Tell me something interesting about bees.", "Where do bees live?", "Describe bees."),
)


def formality(texts: Sequence[str]) -> float:
    return statistics.mean(attribute(list(texts), "pocket-formality", "formal"))


async def said(formula: str, mode: str = "context") -> list[str]:
    """All that a persona answers in its talks, which are held at once."""
    talks = (
        shown.atalk(shown.chat(shown.model(formula, seed=seed), mode), turns)
        for seed, turns in enumerate(TALKS)
    )
    return [answer for answers in await asyncio.gather(*talks) for answer in answers]


async def test_every_turn_of_a_chat_is_in_the_personas_voice(report: Report) -> None:
    bare, persona = formality(await said("M")), formality(await said(shown.PERSONA))
    report(f"chat: formality  M {bare:.3f}  {shown.PERSONA} {persona:.3f}")
    assert persona > bare + 0.5


def test_a_condensed_question_is_answered_in_the_personas_voice() -> None:
    engine = shown.chat(shown.model(seed=1), "condense_plus_context")
    assert formality([str(engine.chat(turn)) for turn in shown.CONDENSED]) > 0.9
