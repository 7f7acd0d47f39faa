"""A text is inside its reasoning, or inside a call, as its whole spelling says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import speaker
from support.reference import is_inside

from marith.formula.tree.signals import CALLING, REASONING
from marith.formula.tree.terms import Observation
from marith.scoring.passes.questions import RequestLane, Span
from marith.scoring.prompting.text_parts import KEPT
from marith.scoring.prompting.tokenizer import Detokenizer
from marith.scoring.terms.text_marks import TextMarks

FAMILIES = ("thinking", "thinking special", "opened", "hermes", "hermes special", "llama", "chatml")
PIECES = [
    "<think>", "</think>", "<thi", "nk>", "</", "think>", " ", "\n", "a", "<", "tool_call>",
    "<tool_call>", '<tool_call>\n{"name": "', '{"name": "', "東", "</tool_call>",
]  # fmt: skip
PROMPT = "<|im_start|>assistant\n"
texts = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


def lane_of(name: str, opened: bool) -> RequestLane:
    return RequestLane(tuple(speaker(name).encode(f"{PROMPT}{'<think>' * opened}", literal=False)))


def asked(
    marks: TextMarks, part: Observation, lane: RequestLane, text: Sequence[int], count: int
) -> list[bool]:
    [answer] = marks.score([Span(part, lane, text, count)])
    assert answer.logprobs.shape == (count, 1)
    return [bool(number) for number in answer.logprobs[:, 0]]


@pytest.mark.parametrize("name", FAMILIES)
@given(
    written=st.lists(texts, min_size=1, max_size=5),
    opened=st.booleans(),
    part=st.sampled_from([REASONING, CALLING]),
    data=st.data(),
)
def test_every_place_of_texts_that_grow_and_are_rolled_back(
    name: str, written: list[str], opened: bool, part: Observation, data: Any
) -> None:
    own = speaker(name)
    marks, lane = TextMarks(own, torch.device("cpu")), lane_of(name, opened)
    opened = own.opens_reasoning(lane.prompt)
    text: list[int] = []
    for piece in written:
        new = own.encode(piece, literal=data.draw(st.booleans()))
        # A text that only grows stays the same object.
        text = text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text
        text += new
        count = data.draw(st.integers(1, len(text) + 1))
        places = range(len(text) + 1 - count, len(text) + 1)
        want = [is_inside(part, own, opened, text[:place]) for place in places]
        assert asked(marks, part, lane, text, count) == want


@pytest.mark.parametrize("part", [REASONING, CALLING])
def test_a_token_of_a_long_thought_is_read_once(
    part: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, fed, plain = speaker("thinking"), 0, Detokenizer.feed

    def feed(self: Detokenizer, token: int) -> str:
        nonlocal fed
        fed += 1
        assert len(self._tokens) < 16
        return plain(self, token)

    monkeypatch.setattr(Detokenizer, "feed", feed)
    marks, lane = TextMarks(own, torch.device("cpu")), lane_of("thinking", opened=True)
    text: list[int] = []
    for token in own.encode("a <b " * 5_000)[:10_000]:
        text.append(token)
        assert asked(marks, part, lane, text, 1) == [part == REASONING]
    assert fed == len(text) == 10_000
    for drafts in (3, KEPT - 1):
        rejected = text[:-drafts]
        asked(marks, part, lane, rejected, 1)
        asked(marks, part, lane, [*rejected, *text[-drafts:]], 1 + drafts)
    assert fed <= len(text) + 3 + KEPT
    asked(marks, part, lane, text[:5_000], 2)
    assert fed <= len(text) + 3 + KEPT + 5_000


def test_a_text_without_tools_calls_none() -> None:
    own = speaker("hermes")
    marks = TextMarks(own, torch.device("cpu"))
    text = own.encode(f"{own.tool_format.calls.opening}x", literal=False)
    assert asked(marks, CALLING, lane_of("hermes", False), text, 1) == [True]
    assert asked(marks, CALLING, RequestLane(()), text, 1) == [False]
