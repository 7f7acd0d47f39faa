"""Sources of drafts that have not paid are tried again: seldom, and all in one round."""

from __future__ import annotations

from itertools import pairwise

from marith.speculation.controller.draft_length import EVERY, Explorer


def test_a_source_left_out_is_tried_every_so_often() -> None:
    explorer = Explorer()
    tried = [explorer.length("a", 0) for _ in range(5 * EVERY)]
    assert [i for i, length in enumerate(tried, 1) if length] == [EVERY * n for n in range(1, 6)]
    assert set(tried) == {0, 1}


def test_all_that_are_due_are_tried_in_one_round_and_then_in_none() -> None:
    explorer, sources = Explorer(every=8), range(20)
    tries: list[int] = []
    for _ in range(100):
        explorer.begin()
        tries.append(sum(explorer.length(source, 0) for source in sources))
    rounds = [i for i, count in enumerate(tries) if count]
    assert {tries[i] for i in rounds} == {len(sources)}  # they share the slower pass
    assert all(later - former > 8 for former, later in pairwise(rounds))
    assert len(rounds) >= 8
