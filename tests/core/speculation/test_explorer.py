"""Sources of drafts that have not paid are tried again: seldom, and all in one round."""

from __future__ import annotations

from itertools import pairwise

from marith.speculation.controller.draft_length import EVERY, Explorer


def test_a_source_left_out_is_tried_every_so_often() -> None:
    explorer = Explorer()
    tried = [explorer.length("a", 0) for _ in range(5 * EVERY)]
    assert [i for i, length in enumerate(tried, 1) if length] == [EVERY * n for n in range(1, 6)]
    assert set(tried) == {0, 1}


def test_sources_are_explored_apart_and_a_chosen_one_needs_no_trial() -> None:
    explorer = Explorer(every=3)
    assert [explorer.length("a", 0) for _ in range(2)] == [0, 0]
    assert explorer.length("b", 0) == 0
    assert explorer.length("a", 5) == 5
    assert [explorer.length("a", 0) for _ in range(3)] == [0, 0, 1]


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


def test_a_source_that_is_rare_is_tried_in_a_later_round() -> None:
    explorer = Explorer(every=4)
    tried = 0
    for i in range(60):
        explorer.begin()
        explorer.length("often", 0)
        tried += explorer.length("rare", 0) if i % 3 == 0 else 0
    assert tried >= 2
