"""Chat engines over several turns: a persona's voice, and a second turn that costs little."""

from __future__ import annotations

import pytest
from support.applications import Report, application

from marith.scoring.passes.lanes import SHORT_PREFIX

shown = application("llamaindex_chat")
TALK = ("What do you know about pandas?", "Where do pandas live?", "What do pandas eat?")
SHORT = {"max_tokens": 24}


def test_a_chat_answers_from_the_document_that_was_found() -> None:
    engine = shown.chat(shown.model("M", temperature=0))
    answers = [engine.chat(turn) for turn in TALK[:2]]
    for answer in answers:
        assert [node.text for node in answer.source_nodes] == [shown.DOCUMENTS[0]]
    assert "cool mountain forests of China" in str(answers[1])
    assert len(engine.chat_history) == 4


def test_a_turn_finds_the_keys_and_values_of_all_turns_before(report: Report) -> None:
    with shown.listening() as used:
        shown.talk(shown.chat(shown.model(seed=7, **SHORT)), TALK)
    first, second, third = used
    for before, after in ((first, second), (second, third)):
        report(f"chat: {after['cached_tokens']} of {after['prompt_tokens']} tokens at hand")
        assert after["cached_tokens"] >= before["prompt_tokens"]
        assert after["cached_tokens"] < after["prompt_tokens"]


@pytest.fixture(scope="module")
def plain() -> tuple[list[str], list[dict[str, int]]]:
    """The answers turn by turn, and their usage where the first question was asked before."""
    shown.talk(shown.chat(shown.model(**SHORT)))
    with shown.listening() as used:
        return shown.talk(shown.chat(shown.model(**SHORT))), counted(used)


def counted(used: list[dict[str, int]]) -> list[dict[str, int]]:
    """The usage but for what was cached: of these prompts, which were asked before, nearly all."""
    for one in used:
        assert one["prompt_tokens"] - SHORT_PREFIX < one["cached_tokens"] < one["prompt_tokens"]
    return [{**one, "cached_tokens": 0} for one in used]


@pytest.mark.parametrize("way", ["stream", "atalk", "astream"])
async def test_every_way_to_chat_gives_the_same_text_and_finds_its_prompts_in_the_cache(
    way: str, plain: tuple[list[str], list[dict[str, int]]]
) -> None:
    with shown.listening() as used:
        answers = getattr(shown, way)(shown.chat(shown.model(**SHORT)))
        answers = answers if way == "stream" else await answers
    if way != "atalk":
        assert all(len([piece for piece in pieces if piece]) > 3 for pieces in answers)
        answers = ["".join(pieces) for pieces in answers]
    assert (answers, counted(used)) == plain


def test_a_condensed_question_finds_the_document_that_the_chat_is_about() -> None:
    engine = shown.chat(shown.model(seed=1), "condense_plus_context")
    first, second = (engine.chat(turn) for turn in shown.CONDENSED)
    assert first.sources[0].raw_input["message"] == shown.CONDENSED[0]
    assert "bees" in second.sources[0].raw_input["message"]
    assert [node.text for node in second.source_nodes] == [shown.DOCUMENTS[2]]


async def test_a_chat_that_condenses_streams_its_answer() -> None:
    whole = shown.talk(shown.chat(shown.model(**SHORT), "condense_plus_context"), shown.CONDENSED)
    engine = shown.chat(shown.model(**SHORT), "condense_plus_context")
    streamed = await shown.astream(engine, shown.CONDENSED)
    assert ["".join(pieces) for pieces in streamed] == whole
