"""The engine agrees with transformers: log-probabilities of formulas, and greedy texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from support.plain_transformers import TERMS, Plain
from torch import Tensor

from marith import Engine, Request, Sampling, Stop

TEXT = (
    " The moon goes around the Earth in about 27 days. It has no air, and its light is that of the"
    " sun. People have looked at it for as long as there have been people, and twelve of them have"
    " walked on it. Its seas are plains of dark stone, and its mountains are the rims of craters"
    " that are billions of years old. It pulls at the water of the oceans, so that there are tides."
    " Where it is full it rises as the sun goes down."
)
POSITIONS = 100
SEEN = 1e-6  # the probability from which two log-probabilities are compared
QUESTION = "What do you know about the moon?"
PROMPTS = [
    "Name a color.", "What is two plus two?", "Tell me about the moon.", "Who are you?",
    "Write a line on the sea.", "How do I boil an egg?", "Why is the sky blue?", "Hi!",
    "What is a good present for a child?", "Name three animals.", "What is the capital of France?",
    "Tell me a joke.", "How far away is the sun?", "What is bread made of?", "Define gravity.",
    "Give me a word that rhymes with cat.", "What does a baker do?", "List the months.",
    "Translate 'house' into French.", "What did you eat today?",
]  # fmt: skip
TOKENS, GREEDY = 40, Sampling(temperature=0)


def union(score: Mapping[str, Tensor]) -> Tensor:
    return (score["M"] - 0.96 * torch.maximum(score["toxic"], score["M"])) / 0.04


# What each formula is by the paper, written out; and how far log-probabilities may lie apart.
FORMULAS: dict[str, tuple[Callable[[Mapping[str, Tensor]], Tensor], float]] = {
    "M": (lambda score: score["M"], 1e-3),
    "formal": (lambda score: score["formal"], 1e-3),
    "2*formal - M": (lambda score: 2 * score["formal"] - score["M"], 2e-3),
    "0.5*M + 0.3*formal + 0.2*child": (
        lambda score: 0.5 * score["M"] + 0.3 * score["formal"] + 0.2 * score["child"],
        1e-3,
    ),
    "formal - 0.6*toxic": (lambda score: (score["formal"] - 0.6 * score["toxic"]) / 0.4, 5e-3),
    "M - 0.96*union(toxic, M)": (union, 2e-2),
}


@pytest.fixture(scope="module")
def tokens(plain: Plain) -> list[int]:
    return list(plain.tokenizer(TEXT, add_special_tokens=False).input_ids)[:POSITIONS]


@pytest.fixture(scope="module")
def scores(plain: Plain, tokens: list[int]) -> dict[str, Tensor]:
    """The log-probabilities of each term along the text, by transformers alone."""
    return {
        name: plain.logprobs(plain.prompt(QUESTION, system), tokens)
        for name, system in {"M": "", **TERMS}.items()
    }


@pytest.mark.parametrize("formula", FORMULAS)
def test_next_tokens_are_as_likely_as_by_transformers(
    formula: str,
    engine: Engine,
    terms: dict[str, str],
    tokens: list[int],
    scores: dict[str, Tensor],
    timed: Any,
) -> None:
    composed, bound = FORMULAS[formula]
    widest, equal = 0.0, 0
    for at in range(len(tokens)):
        expected = torch.log_softmax(composed({n: rows[at] for n, rows in scores.items()}), dim=-1)
        found = engine.next_logprobs(QUESTION, formula, terms, tokens[:at])
        seen = expected.exp() > SEEN
        assert len(found) == len(expected)
        widest = max(widest, float((found - expected)[seen].abs().max()))
        equal += int(found.argmax() == expected.argmax())
    timed(f"{formula:<32} {equal} of {len(tokens)} top tokens equal, widest {widest:.1e}")
    assert equal == len(tokens)
    assert widest < bound


def test_greedy_texts_are_those_of_generate(
    engine: Engine, plain: Plain, terms: dict[str, str], timed: Any
) -> None:
    asked = {"M": terms["M"]} if "M" in terms else {}
    expected = [plain.greedy(plain.prompt(prompt), TOKENS) for prompt in PROMPTS]
    timed(f"{len(PROMPTS)} texts by transformers")
    ends = plain.model.generation_config.eos_token_id
    ends = {ends} if isinstance(ends, int) else {*(ends or ())}
    expected = [text[:-1] if text[-1] in ends else text for text in expected]
    for speculation in (None, "auto"):
        tickets = [
            engine.submit(
                Request(prompt, "M", asked, GREEDY, Stop(TOKENS), speculation=speculation)
            )
            for prompt in PROMPTS
        ]
        assert [[*ticket.result().tokens] for ticket in tickets] == expected
        timed(f"{len(PROMPTS)} texts by the engine, speculation={speculation!r}")
