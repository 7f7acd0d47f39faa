"""Texts as a prefix tree: every text can be read from it, and sees only its own tokens."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marith.scoring.terms import prefix_tree
from marith.scoring.terms.prefix_tree import PrefixTree, prefix_trees

few = st.integers(0, 2)
words = st.lists(few, max_size=7).map(tuple)


def read_off(root: tuple[int, ...], trees: PrefixTree, leaf: int) -> tuple[int, ...]:
    """The tokens that a leaf sees, in the order of their places."""
    seen = [i for i, sees in enumerate(trees.mask()[leaf].tolist()) if sees]
    assert {trees.forks[i] for i in seen} == {trees.forks[leaf]}
    assert [trees.places[i] for i in seen] == list(
        range(trees.forks[leaf], trees.forks[leaf] + len(seen))
    )
    return root[: trees.forks[leaf]] + tuple(trees.tokens[i] for i in seen)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(root=words, texts=st.lists(words, max_size=12), room=st.integers(1, 20))
def test_every_text_can_be_read_from_the_tree(
    monkeypatch: pytest.MonkeyPatch,
    root: tuple[int, ...],
    texts: list[tuple[int, ...]],
    room: int,
) -> None:
    monkeypatch.setattr(prefix_tree, "ROOM", room)
    stops, trees = prefix_trees(root, texts)
    found = {number: root[: at + 1] for number, at in stops.items()}
    for part in trees:
        for number, leaf in part.leaves.items():
            assert number not in found
            found[number] = read_off(root, part, leaf)
    assert found == {i: text for i, text in enumerate(texts) if text}


@given(root=words, texts=st.lists(words, max_size=12))
def test_every_prefix_is_in_the_tree_once(
    root: tuple[int, ...], texts: list[tuple[int, ...]]
) -> None:
    _, [trees] = prefix_trees(root, texts)
    beginnings = [read_off(root, trees, i) for i in range(len(trees.tokens))]
    assert len(set(beginnings)) == len(beginnings)
    assert not set(beginnings) & {root[:i] for i in range(len(root) + 1)}
    wanted = {text[: i + 1] for text in texts for i in range(len(text))}
    assert set(beginnings) == {b for b in wanted if root[: len(b)] != b}
