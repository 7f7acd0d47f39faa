"""Answers as objects: held to their class while they are written, whole or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, Field, RootModel, field_validator
from support.llamaindex_calls import Make
from support.random_classes import Tree

import marith
from llamaindex_marith import Marith
from llamaindex_marith.structured_predict import PartialObject

PROMPT = PromptTemplate("Who {verb}?")


class Sailor(BaseModel):
    """A sailor."""

    name: str = Field(max_length=12)
    ages: list[int] = Field(max_length=2)


class Deed(BaseModel):
    """What is done."""

    do: Callable[[], None]


ADA, EVE = Sailor(name="Ada", ages=[3, 36]), Sailor(name="Eve", ages=[3, 36])


class Seen(BaseEventHandler):
    """Writes down the events of structured answers and of chats."""

    names: list[str] = []  # noqa: RUF012 (a field of pydantic's: each gets its own)

    def handle(self, event: Any, **kwargs: Any) -> None:
        name = event.class_name()
        if name.startswith("LLM") and "ChatInProgress" not in name and name not in self.names[-1:]:
            self.names.append(name)


@pytest.fixture
def seen() -> Iterator[Seen]:
    handler, root = Seen(names=[]), get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


async def every_way(model: Marith, **options: Any) -> list[list[Any]]:
    """All that each of the four ways gives of a sailor."""
    given: dict[str, Any] = {"verb": "sails", "llm_kwargs": options or None}
    streamed = await model.astream_structured_predict(Sailor, PROMPT, **given)
    return [
        [model.structured_predict(Sailor, PROMPT, **given)],
        list(model.stream_structured_predict(Sailor, PROMPT, **given)),
        [await model.astructured_predict(Sailor, PROMPT, **given)],
        [part async for part in streamed],
    ]


async def test_an_answer_is_an_object_of_the_class_in_every_way(scripted: Make) -> None:
    for answers in await every_way(scripted()):
        assert answers[-1] == ADA


async def test_a_stream_gives_what_is_there_so_far_and_nothing_twice(scripted: Make) -> None:
    _, streamed, _, astreamed = await every_way(scripted())
    for answers in (streamed, astreamed):
        assert len(answers) > 4
        assert all(a != b for a, b in zip(answers, answers[1:], strict=False))
        names = [str(answer.name or "") for answer in answers]
        assert all("Ada".startswith(name) for name in names)
        assert [*map(len, names)] == sorted(map(len, names))
        assert any(isinstance(answer, Sailor) for answer in answers[:-1])


async def test_the_system_prompt_reaches_every_way(scripted: Make) -> None:
    for answers in await every_way(scripted(system_prompt="Be brief."), show_schema=False):
        assert answers[-1] == EVE


async def test_an_answer_that_is_cut_off_is_refused_in_every_way(scripted: Make) -> None:
    model, hidden = scripted(max_tokens=6), {"show_schema": False}
    problem = "the answer is not a valid Sailor: it was cut off at max_tokens: '{"
    with pytest.raises(ValueError, match=problem):
        model.structured_predict(Sailor, PROMPT, hidden, verb="sails")
    with pytest.raises(ValueError, match=problem):
        list(model.stream_structured_predict(Sailor, PROMPT, hidden, verb="sails"))
    with pytest.raises(ValueError, match=problem):
        await model.astructured_predict(Sailor, PROMPT, hidden, verb="sails")
    with pytest.raises(ValueError, match=problem):
        async for _ in await model.astream_structured_predict(Sailor, PROMPT, hidden, verb="sails"):
            pass


async def test_options_of_a_call_win_and_options_of_programs_are_ignored(scripted: Make) -> None:
    model = scripted(max_tokens=6)
    for answers in await every_way(model, max_tokens=60, tool_choice="required"):
        assert answers[-1] == ADA
    with pytest.raises(ValueError, match="Marith takes no option 'temprature'"):
        await every_way(model, temprature=0)


class Crew(RootModel[list[int]]):
    """Ages, and no names."""

    @field_validator("root")
    @classmethod
    def _whole(cls, ages: list[int]) -> list[int]:
        return [ages[0], ages[1]]  # an IndexError for half a crew


def test_a_class_that_cannot_be_partial_is_answered_at_the_end_of_a_stream() -> None:
    partial = PartialObject(Crew)
    texts = ("[", "[3", "[3, 36]")
    objects = [partial.next_object(response(text, text.endswith("]"))) for text in texts]
    assert objects == [None, None, Crew([3, 36])]


def response(text: str, whole: bool) -> ChatResponse:
    raw = {"finish_reason": "stop"} if whole else None
    return ChatResponse(message=ChatMessage(text), raw=raw)


@pytest.mark.parametrize(
    ("output_cls", "options", "problem"),
    [
        (
            Sailor,
            {"grammar": "x"},
            "structured_predict takes no 'grammar': the class is the grammar",
        ),
        (Sailor, {"tools": []}, "structured_predict takes no 'tools': the class is the grammar"),
        (dict, {}, "output_cls is a pydantic class, not <class 'dict'>"),
        (Deed, {}, "Deed has no JSON schema: Cannot generate"),
    ],
)
def test_a_class_without_a_schema_is_refused(
    output_cls: Any, options: dict[str, Any], problem: str
) -> None:
    model = Marith(model="/nowhere")
    with pytest.raises(marith.RequestError, match=problem):
        model.structured_predict(output_cls, PROMPT, llm_kwargs=options, verb="sails")
    with pytest.raises(marith.RequestError, match=problem):
        list(model.stream_structured_predict(output_cls, PROMPT, options, verb="sails"))


def test_no_stop_string_ends_an_object(scripted: Make) -> None:
    whole = scripted().structured_predict(Sailor, PROMPT, verb="sails")
    assert scripted(stop=["da"]).structured_predict(Sailor, PROMPT, verb="sails") == whole


async def test_each_answer_starts_and_ends_once_and_is_counted(scripted: Make, seen: Seen) -> None:
    counter = TokenCountingHandler(tokenizer=lambda _: [])
    await every_way(scripted(callback_manager=CallbackManager([counter])))
    (counts,) = {(e.prompt_token_count, e.completion_token_count) for e in counter.llm_token_counts}
    assert len(counter.llm_token_counts) == 4
    assert min(counts) > 0
    for event in ("StructuredPredictStart", "StructuredPredictEnd", "ChatStart", "ChatEnd"):
        assert seen.names.count(f"LLM{event}Event") == 4, event
    assert seen.names.count("LLMStructuredPredictInProgressEvent") == 2  # runs of them


async def test_llama_indexs_own_programs_run_too(scripted: Make) -> None:
    for mode in (PydanticProgramMode.FUNCTION, PydanticProgramMode.LLM):
        for answers in await every_way(scripted(pydantic_program_mode=mode)):
            assert answers[-1].model_dump() == ADA.model_dump(), mode


@pytest.mark.parametrize("mode", [PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION])
def test_a_union_is_read_although_its_tag_has_a_default(mode: PydanticProgramMode) -> None:
    for seed in range(2):
        model = Marith(model="pocket", temperature=1, seed=seed, pydantic_program_mode=mode)
        assert isinstance(model.structured_predict(Tree, PromptTemplate("Name a tree.")), Tree)
