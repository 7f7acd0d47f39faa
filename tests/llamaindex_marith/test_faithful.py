"""In every engine of LlamaIndex, the contrasted term does not read the retrieved text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.prompts import PromptTemplate
from llama_index.core.prompts.default_prompts import DEFAULT_TEXT_QA_PROMPT
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from llamaindex_marith import Marith
from llamaindex_marith.chat_messages import to_dicts
from llamaindex_marith.retrieved_text import RETRIEVED
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import messages_as_read

QUESTION = "What is the capital of Spain?"
PASSAGES = ("Tunis is the capital of Spain.", "The capital of Spain is Tunis.")
HIDDEN = Prompted(hide=RETRIEVED)
ENGINES: list[dict[str, Any]] = [
    {"similarity_top_k": 1},
    {"similarity_top_k": 2, "response_mode": "refine"},
    {"similarity_top_k": 2, "response_mode": "tree_summarize"},
    {"similarity_top_k": 1, "chat_mode": "context"},
    {"similarity_top_k": 1, "chat_mode": "condense_plus_context"},
]


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


@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_whatever_engine_asks_the_passage_is_hidden(
    heard: list[list[ChatMessage]], options: dict[str, Any]
) -> None:
    model = Marith(temperature=0.0, max_tokens=1)
    nodes = [TextNode(text=passage) for passage in PASSAGES]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    if "chat_mode" in options:
        memory = ChatMemoryBuffer.from_defaults(token_limit=512, tokenizer_fn=model.encode)
        index.as_chat_engine(llm=model, memory=memory, **options).chat(QUESTION)
    else:
        index.as_query_engine(llm=model, **options).query(QUESTION)
    assert any("Tunis" in message.content for message in heard[-1])
    seen = messages_as_read(HIDDEN, to_prompt(to_dicts(heard[-1])).messages)
    assert not any("Tunis" in message["content"] for message in seen)
    assert QUESTION in seen[-1]["content"]


class Opening(BaseModel):
    """When a place opens."""

    place: Literal["pool", "museum"]
    hour: int = Field(ge=0, le=23)


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
def test_a_query_engine_fills_a_class_from_its_passages(mode: ResponseMode) -> None:
    index = VectorStoreIndex(
        [TextNode(text="The pool opens at 9.")], embed_model=MockEmbedding(embed_dim=2)
    )
    model = Marith(model="pocket", temperature=0.0, max_tokens=80, faithful=0.25)
    asked = index.as_query_engine(llm=model, response_mode=mode, output_cls=Opening)
    answer: Any = asked.query("When does the pool open?")
    assert isinstance(answer.response, Opening)


async def test_every_form_is_filled_from_a_passage() -> None:
    model = Marith(model="pocket", temperature=0.0, max_tokens=80, faithful=0.25)
    asked = DEFAULT_TEXT_QA_PROMPT.format(
        context_str="The pool opens at 9.", query_str="When does the pool open?"
    )
    prompt = PromptTemplate(asked)
    structured = model.as_structured_llm(Opening)
    found = [
        model.structured_predict(Opening, prompt),
        await model.astructured_predict(Opening, prompt),
        [*model.stream_structured_predict(Opening, prompt)][-1],
        structured.complete(asked).raw,
        structured.chat([ChatMessage(asked)]).raw,
    ]
    assert all(isinstance(each, Opening) for each in found)
    tool = FunctionTool.from_defaults(lambda hour: hour, name="opens", description="Opens.")
    called = model.chat_with_tools([tool], asked, tool_required=True)
    assert [call.tool_name for call in model.get_tool_calls_from_response(called)] == ["opens"]
