"""Measure how well a model copies: the share of greedy replies that contain the right text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from tools.pocket import corpus, tokenizer
from tools.pocket.grammar import passages, words
from tools.pocket.grammar.document import Document
from tools.pocket.language_model import shipped

PER_KIND = 60
LONGEST = 120
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ASKS = ("Repeat after me: {x}", "Copy this line exactly.\n{x}", "Say exactly this: {x}")


@dataclass(frozen=True, slots=True)
class Case:
    """A held-out request: its messages without the reply, and a check of the reply."""

    messages: tuple[Mapping[str, Any], ...]
    right: Callable[[str], bool]
    tools: tuple[Mapping[str, Any], ...] = ()


def measure(folder: Path, seed: int = 3, count: int = PER_KIND) -> dict[str, float]:
    """Return the share of `count` held-out requests that the model copies right, by kind."""
    model, reader = shipped(folder).eval(), tokenizer.load(folder)
    shares = {}
    for kind, draw in KINDS.items():
        cases = islice(_held_out(draw, random.Random(f"{kind}/{seed}")), count)
        right = [case.right(reply(model, reader, case)) for case in cases]
        shares[kind] = round(sum(right) / len(right), 3)
    return shares


@torch.no_grad()
def reply(model: LlamaForCausalLM, reader: PreTrainedTokenizerFast, case: Case) -> str:
    """Return the model's reply at temperature 0."""
    text = reader.apply_chat_template(
        [dict(message) for message in case.messages],
        tools=[dict(tool) for tool in case.tools] or None,
        add_generation_prompt=True,
        tokenize=False,
    )
    prompt = reader(str(text), add_special_tokens=False, return_tensors="pt")
    # `generate` expects a protocol that mypy does not recognize in the class.
    generator: Any = model
    out = generator.generate(**prompt, max_new_tokens=LONGEST, do_sample=False)
    reply_tokens = out[0, prompt["input_ids"].shape[1] :].tolist()
    return str(reader.decode(reply_tokens)).removesuffix(corpus.END)


def _held_out(
    draw: Callable[[random.Random], tuple[str, Case] | None], rng: random.Random
) -> Iterator[Case]:
    """Yield the cases whose key training never showed."""
    while True:
        drawn = draw(rng)
        if drawn and Document("", drawn[0]).held_out:
            yield drawn[1]


def _asked(text: str) -> tuple[Mapping[str, Any], ...]:
    return ({"role": "user", "content": text},)


def _repeated(*kinds: str) -> Callable[[random.Random], tuple[str, Case]]:
    """Draw a request to repeat a value of one of the kinds, and nothing else."""

    def draw(rng: random.Random) -> tuple[str, Case]:
        value = words.draw(rng.choice(kinds), rng)
        ask = rng.choice(_ASKS).format(x=value)
        return f"pair/{value}", Case(_asked(ask), lambda reply: reply == value)

    return draw


def _called(foreign: bool) -> Callable[[random.Random], tuple[str, Case] | None]:
    """Draw a request to call the right tools with the right values, some `foreign` to ASCII."""

    def draw(rng: random.Random) -> tuple[str, Case] | None:
        document = corpus.DRAW["tools"](rng)
        at = [i for i, message in enumerate(document.messages) if message.get("tool_calls")]
        if not at:
            return None
        functions = [call["function"] for call in document.messages[at[0]]["tool_calls"]]
        if json.dumps(functions, ensure_ascii=False).isascii() is foreign:
            return None
        wanted = [dict(function) for function in functions]
        case = Case(
            document.messages[: at[0]], lambda reply: calls(reply) == wanted, document.tools
        )
        return document.key, case

    return draw


def calls(text: str) -> list[Any]:
    """Return the tool calls in a reply, or an empty list if one of them is not JSON."""
    try:
        return [json.loads(call) for call in _CALL.findall(text)]
    except json.JSONDecodeError:
        return []


def _contradicted(rng: random.Random) -> tuple[str, Case]:
    """Draw a common question with a passage that contradicts the usual answer."""
    name, ask, statement, value = passages.contradiction(rng)
    text = f"Context:\n{statement}\n\nQuestion: {ask}"
    return f"{name}/{value}", Case(_asked(text), lambda reply: value.lower() in reply.lower())


def _stated(*counts: int) -> Callable[[random.Random], tuple[str, Case]]:
    """Draw a question for the value of one subject, with passages that state it for others too."""

    def draw(rng: random.Random) -> tuple[str, Case]:
        key, texts, ask, value = passages.statements(rng.choice(counts), rng)
        text = "Context:\n" + "\n\n".join(texts) + f"\n\nQuestion: {ask}"
        return key, Case(_asked(text), lambda reply: value.lower() in reply.lower())

    return draw


KINDS: Mapping[str, Callable[[random.Random], tuple[str, Case] | None]] = {
    "identifiers, codes": _repeated("identifier", "camel", "jumble", "code"),
    "other scripts": _repeated("script"),
    "places": _repeated("located"),
    "tool calls": _called(foreign=False),
    "tool calls, other scripts": _called(foreign=True),
    "a passage": _stated(1),
    "one of 2 to 4 passages": _stated(2, 3, 4),
    "a passage against what is known": _contradicted,
}
