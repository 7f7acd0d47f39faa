"""Texts as branches on a trunk: every text can be read off, and sees its own tokens only."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marith.scoring.classifier import prefix_tree
from marith.scoring.classifier.prefix_tree import Branches, graft

few = st.integers(0, 2)
words = st.lists(few, max_size=7).map(tuple)


def read_off(trunk: tuple[int, ...], grown: Branches, leaf: int) -> tuple[int, ...]:
    """The tokens that a leaf sees, in the order of their places."""
    seen = [i for i, sees in enumerate(grown.sight()[leaf].tolist()) if sees]
    assert {grown.forks[i] for i in seen} == {grown.forks[leaf]}
    assert [grown.places[i] for i in seen] == list(
        range(grown.forks[leaf], grown.forks[leaf] + len(seen))
    )
    return trunk[: grown.forks[leaf]] + tuple(grown.tokens[i] for i in seen)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trunk=words, texts=st.lists(words, max_size=12), room=st.integers(1, 20))
def test_every_text_stands_where_it_is_said_to_stand(
    monkeypatch: pytest.MonkeyPatch,
    trunk: tuple[int, ...],
    texts: list[tuple[int, ...]],
    room: int,
) -> None:
    monkeypatch.setattr(prefix_tree, "ROOM", room)
    stops, grown = graft(trunk, texts)
    found = {number: trunk[: at + 1] for number, at in stops.items()}
    for part in grown:
        for number, leaf in part.leaves.items():
            assert number not in found
            found[number] = read_off(trunk, part, leaf)
    assert found == {i: text for i, text in enumerate(texts) if text}


@given(trunk=words, texts=st.lists(words, max_size=12))
def test_no_beginning_stands_twice(trunk: tuple[int, ...], texts: list[tuple[int, ...]]) -> None:
    _, [grown] = graft(trunk, texts)
    beginnings = [read_off(trunk, grown, i) for i in range(len(grown.tokens))]
    assert len(set(beginnings)) == len(beginnings)
    assert not set(beginnings) & {trunk[:i] for i in range(len(trunk) + 1)}
    wanted = {text[: i + 1] for text in texts for i in range(len(text))}
    assert set(beginnings) == {b for b in wanted if trunk[: len(b)] != b}
