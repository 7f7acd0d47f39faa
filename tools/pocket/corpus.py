"""The pocket corpus: a mixture of documents, their text, and the weights of their tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from tools.pocket.grammar import chats, conversations, copies, passages, reviews, tools
from tools.pocket.grammar.document import Document

MIXTURE = {
    "chats": 0.26,
    "conversations": 0.14,
    "reviews": 0.10,
    "passages": 0.32,
    "tools": 0.12,
    "copies": 0.06,
}
DRAW: dict[str, Callable[[random.Random], Document]] = {
    "chats": chats.draw,
    "conversations": conversations.draw,
    "reviews": reviews.draw,
    "passages": passages.draw,
    "tools": tools.draw,
    "copies": copies.draw,
}
END = "<|end|>"
QUESTION_WEIGHT = 0.1
MOST_DRAWS = 10_000


def documents(seed: int, held_out: bool = False) -> Iterator[Document]:
    """Yield documents of one side of the held-out split without end, equal for equal seeds."""
    rng = random.Random(f"{seed}/{held_out}")
    names, shares = list(MIXTURE), list(MIXTURE.values())
    while True:
        yield draw_on_side(rng.choices(names, shares)[0], rng, held_out)


def draw_on_side(name: str, rng: random.Random, held_out: bool) -> Document:
    """Draw a document of the part `name` on one side of the split, so that the mixture stays."""
    for _ in range(MOST_DRAWS):
        document = DRAW[name](rng)
        if document.held_out is held_out:
            return document
    raise ValueError(f"{MOST_DRAWS} draws from {name!r} gave no document with {held_out=}")


@cache
def chat_template() -> str:
    """Return the chat template of every pocket tokenizer."""
    return Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8").rstrip("\n")


def text_of(document: Document) -> str:
    """Return a document as one text, with its role marks and end marks."""
    if not document.messages:
        return document.prompt + document.completion + END
    rendered = render_jinja_template(
        conversations=[[dict(message) for message in document.messages]],
        tools=[dict(tool) for tool in document.tools] or None,
        chat_template=chat_template(),
    )
    return str(rendered[0][0])


def render(document: Document, tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[float]]:
    """Return the tokens of a document, and the weight of the loss of each token."""
    encode = tokenizer.backend_tokenizer.encode
    if document.messages:
        tokens: list[int] = encode(text_of(document), add_special_tokens=False).ids
        return tokens, chat_weights(tokens, tokenizer)
    # An application tokenizes a prompt without its answer, so it is tokenized alone here too.
    prompt = encode(document.prompt, add_special_tokens=False).ids
    completion = encode(document.completion + END, add_special_tokens=False).ids
    return prompt + completion, [QUESTION_WEIGHT] * len(prompt) + [1.0] * len(completion)


def chat_weights(tokens: list[int], tokenizer: PreTrainedTokenizerFast) -> list[float]:
    """Return the weights of a chat: 1 in replies, little in questions, and 0 elsewhere."""
    said_by = role_weights(tokenizer)
    end, weight, weights = tokenizer.eos_token_id, 0.0, []
    for token in tokens:
        opened = said_by.get(token)
        weights.append(0.0 if opened is not None else weight)
        if opened is not None:
            weight = opened
        elif token == end:
            weight = 0.0
    return weights


@cache
def role_weights(tokenizer: PreTrainedTokenizerFast) -> dict[int, float]:
    """Return the weights of the words after each role mark."""
    weights = {"system": 0.0, "tools": 0.0, "tool": 0.0, "user": QUESTION_WEIGHT, "assistant": 1.0}
    vocabulary = tokenizer.get_vocab()
    return {vocabulary[f"<|{role}|>"]: weight for role, weight in weights.items()}
