"""Whatever engine of LlamaIndex asks, the other term does not read what was retrieved.

How far answers follow the passages is measured in `tests/evidence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent
from support import faithful
from support.contradictions import contradictions

from llamaindex_marith import Marith
from llamaindex_marith.chat_messages import to_dicts
from llamaindex_marith.retrieved_text import RETRIEVED
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import see

FEW = list(contradictions())[::20]
HIDDEN = Prompted(hide=RETRIEVED)


class _Heard(BaseEventHandler):
    """Keeps what is sent to a chat model."""

    asked: list[list[ChatMessage]]

    def handle(self, event: BaseEvent, **kwargs: object) -> None:
        if isinstance(event, LLMChatStartEvent):
            self.asked.append(event.messages)


@pytest.fixture
def heard() -> Iterator[list[list[ChatMessage]]]:
    """Every conversation that LlamaIndex sends, as it sends it."""
    handler, dispatcher = _Heard(asked=[]), get_dispatcher()
    dispatcher.add_event_handler(handler)
    yield handler.asked
    dispatcher.event_handlers.remove(handler)


def test_whatever_engine_asks_the_passage_is_hidden(heard: list[list[ChatMessage]]) -> None:
    one_word = Marith(temperature=0.0, max_tokens=1)
    for ask, passages in faithful.ENGINES.values():
        store = faithful.stored(FEW, passages)
        for case in FEW:
            asyncio.run(ask(store, one_word, case.question))
            seen = see(HIDDEN, to_prompt(to_dicts(heard[-1])).messages)
            assert not any(case.follows(message["content"]) for message in seen)
            assert case.question in seen[-1]["content"]
