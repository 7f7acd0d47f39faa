"""How much of long texts is read beside texts that go on."""

from __future__ import annotations

import pytest
from support.asking import VOCAB, ask, text

from marith.scoring.passes import cached_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import FEWEST, SHARE, PrefillBudget
from marith.scoring.passes.passes import Asked
from marith.scoring.terms.runner import start_runner
from marith.testing import tiny_model


def test_a_call_takes_a_quarter_longer_by_what_calls_have_taken() -> None:
    pace = PrefillBudget()
    assert pace.most(0) is None
    assert pace.most(4) is None  # nothing is known, and so nobody has waited
    for _ in range(20):
        pace.learn(4, 0, 0.1)
        pace.learn(4, 50, 0.1 + 50 * 0.0005)
    assert pace.most(4) == pytest.approx(SHARE * 0.1 / 0.0005, abs=1)
    assert pace.most(0) is None
    for _ in range(20):
        pace.learn(4, 50, 0.1 + 50 * 0.005)  # a long text's later tokens read more
    assert pace.most(4) == FEWEST


def test_a_long_prompt_is_read_in_smaller_pieces_while_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(cached_runner.time, "monotonic", lambda: clock[0])
    runner = start_runner(tiny_model(context_length=700), VOCAB, 700)
    assert isinstance(runner, CachedRunner)
    logits = runner._logits

    def timed(*args: object) -> object:
        clock[0] += 0.010 + 0.001 * sum(each.ids.numel() for each in args[0])  # type: ignore[attr-defined]
        return logits(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "_logits", timed)
    prompt, sizes, answered = text(9), [], False
    ask(runner, [Asked("chat", prompt)])
    for place in range(200):
        chat = Asked("chat", prompt, continuation=text(place + 1))
        lane = runner.lanes.held.get("long")
        before = len(lane.tokens) if lane else 0
        asked = [chat] if place < 5 or answered else [chat, Asked("long", text(400))]
        answers = runner.ask(asked)
        assert answers[0] is not None
        if len(asked) == 2:
            sizes.append(len(runner.lanes.held["long"].tokens) - before)
            answered = answers[1] is not None
    assert answered
    assert sum(sizes) == 400
    assert max(sizes) <= 64
    assert set(sizes[10:-1]) == {FEWEST}
