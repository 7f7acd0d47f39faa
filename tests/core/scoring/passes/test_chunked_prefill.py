"""How much of long texts is read beside texts that go on."""

from __future__ import annotations

from support.runner_questions import VOCAB, ask, span_of, text

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import SMALL_CHUNK
from marith.testing import tiny_model


def test_a_long_prompt_is_read_in_smaller_pieces_while_others_go_on() -> None:
    runner = start_runner(tiny_model(context_length=700), VOCAB, 700)
    assert isinstance(runner, CachedRunner)
    prompt, sizes, answered = text(9), [], False
    ask(runner, [span_of("chat", prompt)])
    for place in range(200):
        chat = span_of("chat", prompt, continuation=text(place + 1))
        lane = runner.lanes.held.get("long")
        before = len(lane.tokens) if lane else 0
        asked = [chat] if place < 5 or answered else [chat, span_of("long", text(400))]
        answers = runner.ask(asked)
        assert answers[0] is not None
        if len(asked) == 2:
            sizes.append(len(runner.lanes.held["long"].tokens) - before)
            answered = answers[1] is not None
    assert answered
    assert sum(sizes) == 400
    assert max(sizes) == SMALL_CHUNK
