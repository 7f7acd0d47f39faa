"""Events of text alone are written around the text, and are the same bytes as any other way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith import Chunk, Request
from marith.serving.wire.choice_events import ChoiceWriter
from marith.serving.wire.wire_answers import ChatDeltas, TextDeltas, answer_head
from marith.serving.wire.wire_fields import ChatFields
from marith.serving.wire.wire_requests import WireRequest

ODD = st.sampled_from(["\0", '"\\u0000"', "\u2028\u2029\x85", "\U0001f600", '"\\', "\n", "</p>"])
TEXTS = st.one_of(ODD, st.text(st.characters(exclude_categories=["Cs"]), min_size=1))


def writer(kind: str, with_usage: bool, logprobs: bool, model: str) -> ChoiceWriter:
    options = {"include_usage": with_usage}
    fields = ChatFields(messages=[{"role": "user", "content": "x"}], stream_options=options)
    asked = WireRequest([Request("x")], [], fields)
    head = answer_head(kind, model, "fp_1")
    deltas = ChatDeltas if kind == "chat.completion" else TextDeltas
    return ChoiceWriter(head, asked, [deltas(i, logprobs) for i in range(2)])


@pytest.mark.parametrize("kind", ["chat.completion", "text_completion"])
@pytest.mark.parametrize("logprobs", [False, True])
@given(text=TEXTS, index=st.integers(0, 1), with_usage=st.booleans(), model=TEXTS)
def test_the_fast_event_of_text_has_the_same_bytes_as_the_general_one(
    kind: str, logprobs: bool, text: str, index: int, with_usage: bool, model: str
) -> None:
    events = writer(kind, with_usage, logprobs, model)
    chunk = Chunk(text, (5,))
    choices = [*events._deltas[index].of(chunk)]
    [data] = events.of(index, chunk)
    assert data == events._event(choices, events._usage)
    assert data.count(b"\n") == 2
    assert not any(end in data.decode() for end in "\x85\u2028\u2029")
    whole = json.loads(data.removeprefix(b"data: "))
    assert whole["model"] == model
    [choice] = whole["choices"]
    found = choice["delta"]["content"] if kind == "chat.completion" else choice["text"]
    assert (found, choice["index"], choice["finish_reason"]) == (text, index, None)


def test_the_last_event_and_reasoning_are_not_written_the_fast_way() -> None:
    events = writer("chat.completion", False, False, "m")
    text = b"".join(events.of(0, Chunk("a", (1,), "stop")))
    assert b'"content":"a"' in text
    assert b'"finish_reason":"stop"' in text, "it is sent, also if the other choice fails"
    assert b'"finish_reason":"stop"' not in b"".join(events.of(1, Chunk("a", (1,), "stop")))
    assert b'"finish_reason":"stop"' in b"".join(events.last([]))
    both = b"".join(events.of(0, Chunk("a", (1,), reasoning="b")))
    assert b'"reasoning_content":"b"' in both
    assert b'"content":"a"' in both
