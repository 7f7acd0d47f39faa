"""How much likelier a model finds the sentence of a passage than what is usually said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from llama_index.core.base.llms.types import ChatMessage
from support.contradictions import Contradiction

from llamaindex_marith import Marith
from llamaindex_marith.chat_messages import to_dicts
from llamaindex_marith.retrieved_text import RETRIEVED


def odds(model: Marith, asked: tuple[Contradiction, list[ChatMessage]]) -> float:
    """The logarithm of how much likelier the sentence told is than the usual one."""
    case, messages = asked
    request, engine = model.request(to_dicts(messages)), model.engine()
    told, usual = (
        sum(engine.score(request.prompt, text, request.formula, request.terms))
        for text in (case.passage, case.passage.replace(case.stated, case.usual))
    )
    return told - usual


def risen(asked: list[tuple[Contradiction, list[ChatMessage]]]) -> list[bool]:
    """Whether `faithful` makes for better odds, for each case and what was sent for it."""
    models = (Marith(faithful=strength, faithful_to=RETRIEVED) for strength in (0, 0.5))
    with ThreadPoolExecutor(32) as pool:
        before, after = (pool.map(partial(odds, model), asked) for model in models)
        return [a > b for a, b in zip(after, before, strict=True)]
