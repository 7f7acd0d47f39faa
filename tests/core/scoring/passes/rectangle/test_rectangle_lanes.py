"""Rows of lanes: the tokens of a lane are the tokens in its row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marith.errors import ModelError
from marith.scoring.lane_text import common
from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.rectangle import rectangle_cache
from marith.scoring.passes.rectangle.rectangle_cache import KVCache, power_of_two
from marith.scoring.passes.rectangle.rectangle_lanes import MOVES, RectangleLanes

tokens = st.lists(st.integers(0, 2), max_size=40)
SLOT = 2 * 4  # bytes of one position: a key and a value of one number


def rows_of(cache: KVCache, most_bytes: int) -> RectangleLanes:
    """The lanes of a cache that no model reads."""
    return RectangleLanes(cache, most_bytes, LayerMasks({"": None}), torch.device("cpu"))


def fresh(most_bytes: int = 1 << 20) -> RectangleLanes:
    cache = KVCache(1)
    cache.resize(1, 1)
    cache.aim([0], torch.tensor([[0]]), 1)
    cache.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 0)
    lanes = rows_of(cache, most_bytes)
    lanes.forget()
    return lanes


def read(lanes: RectangleLanes, lane: Lane, text: list[int]) -> None:
    """Write each missing token itself as its key, as a pass would."""
    slots = torch.arange(len(lane.tokens), len(text))[None]
    lanes.cache.aim([lane.row], slots, len(text))
    new = torch.tensor(text[len(lane.tokens) :], dtype=torch.float).view(1, 1, -1, 1)
    lanes.cache.update(new, new, 0)
    lane.tokens = list(text)


def holds(lanes: RectangleLanes, lane: Lane) -> list[int]:
    kept = lanes.cache.layers[0].keys[lane.row, 0, : len(lane.tokens), 0]
    return [int(key) for key in kept]


@given(
    script=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from("ab"), tokens, st.booleans()), max_size=40
    ),
    most=st.sampled_from([0, 65 * SLOT, 500 * SLOT, 1 << 20]),
    fixed=st.booleans(),
)
def test_the_tokens_of_a_lane_are_the_tokens_in_its_row(
    script: list[tuple[int, str, list[int], bool]], most: int, fixed: bool
) -> None:
    lanes, held = fresh(most), {}
    for owner, voice, text, released in script:
        key = owner, voice
        lane = held[key] = lanes.take(key, voice, text)
        assert lane.tokens == text[: len(lane.tokens)]
        lanes.make_room(len(text))
        lanes.settle([*held.values()], len(held) if fixed else 0)
        rows = sorted(n.row for n in held.values())
        if fixed:
            assert rows[-1] < power_of_two(len(rows))
        else:
            assert rows == list(range(rows[0], rows[0] + len(rows)))
        lanes.copy_common(lane, text)
        read(lanes, lane, text)
        for kept in lanes:
            assert holds(lanes, kept) == kept.tokens
        assert [kept.row for kept in lanes] == list(range(len(list(lanes))))
        if released:
            lanes.release(key)
            del held[key]
        assert lanes.busy == len(held)


@given(
    script=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 12), st.sets(st.integers(0, 40))), max_size=30
    )
)
def test_in_the_fixed_shape_lanes_that_stay_in_use_move_seldom(
    script: list[tuple[int, int, set[int]]],
) -> None:
    lanes, held, begun, moved = fresh(), {}, 0, []
    plain: Any = lanes.cache.swap
    lanes.cache.swap = lambda a, b, length: (moved.append((a, b)), plain(a, b, length))
    for first, count, leaving in script:
        for owner in range(first, first + count):
            begun += owner not in held
            text = [owner, *held[owner].tokens] if owner in held else [owner] * 3
            held[owner] = lanes.take(owner, None, text[-1:])
            lanes.make_room(len(text))
            lanes.settle([*held.values()], len(held))
            read(lanes, held[owner], text)
        for owner in leaving & {*held}:
            lanes.release(owner)
            del held[owner]
        if held:
            before = {lane: lane.row for lane in lanes}
            lanes.settle([*held.values()], len(held))
            rest = [lane for lane in held.values() if lane.row >= power_of_two(len(held))]
            changed = {lane for lane, row in before.items() if row != lane.row}
            assert len(changed & {*held.values()}) <= MOVES
            assert not rest or len(changed) == 2 * MOVES
        for lane in lanes:
            assert holds(lanes, lane) == lane.tokens
    assert len(moved) <= begun


@given(kept=tokens, asked=tokens)
def test_the_common_prefix_is_as_long_as_tokens_agree(kept: list[int], asked: list[int]) -> None:
    length = common(kept, asked)
    assert kept[:length] == asked[:length]
    assert length == min(len(kept), len(asked)) or kept[length] != asked[length]


def test_a_lane_that_goes_on_is_taken_over_and_one_that_differs_is_copied() -> None:
    lanes, text = fresh(), list(range(50))
    first = lanes.take("first", None, text)
    lanes.make_room(50)
    read(lanes, first, text)
    lanes.release("first")
    assert lanes.take("second turn", None, [*text, 7]) is first
    lanes.release("second turn")
    other = [*text[:30], *[9] * 5]
    lane = lanes.take("same system prompt", None, other)
    assert lane is not first
    lanes.make_room(35)
    assert lanes.copy_common(lane, other) == 30
    assert holds(lanes, lane) == text[:30]
    assert first.tokens == text


def test_lanes_with_other_keys_share_no_prefix() -> None:
    lanes, text = fresh(), list(range(50))
    lane = lanes.take("a", "polite", text)
    lanes.make_room(50)
    read(lanes, lane, text)
    lanes.release("a")
    assert lanes.take("b", "rude", text).tokens == []
    assert lanes.copy_common(lanes.take("b", "rude", text), text) == 0
    assert lanes.take("c", "polite", text).tokens == text
    held = lanes.take("c", "rude", text)
    assert (held.tokens, held.key) == ([], "rude")


@pytest.mark.parametrize("rows", [2, 5])
def test_idle_lanes_beyond_the_limit_are_dropped_least_recently_used_first(
    rows: int,
) -> None:
    lanes = fresh(most_bytes=rows * 65 * SLOT)  # a row has 64 positions, and one for padding
    for i in range(8):
        lane = lanes.take(i, None, [i] * 20)
        lanes.make_room(20)
        read(lanes, lane, [i] * 20)
        lanes.release(i)
        cache = lanes.cache
        assert cache.bytes_of(cache.rows, cache.capacity) <= lanes.cache_limit.most_bytes
    assert {lane.tokens[0] for lane in lanes} == set(range(8 - rows, 8))


def test_a_long_text_leaves_no_large_cache_behind() -> None:
    lanes = fresh(most_bytes=10_000 * SLOT)
    long = lanes.take("long", None, [1] * 7000)
    lanes.make_room(7000)
    read(lanes, long, [1] * 7000)
    lanes.release("long")
    for i in range(4):
        short = lanes.take(i, None, [i] * 20)
        lanes.make_room(20)
        read(lanes, short, [i] * 20)
    cache = lanes.cache
    assert cache.bytes_of(cache.rows, cache.capacity) < 1000 * SLOT


def test_the_same_prompt_is_compared_once() -> None:
    lanes = rows_of(KVCache(1), 2**20)
    prompt, continuation = (1, 2, 3), [4, 5]
    lane = lanes.take("a", None, prompt, continuation)
    lane.tokens += [*prompt, *continuation]
    assert lanes.take("a", None, prompt, [4, 5, 6]).tokens == [1, 2, 3, 4, 5]
    assert lanes.take("a", None, prompt, [4, 7]).tokens == [1, 2, 3, 4]
    changing = [1, 2, 9]
    assert lanes.take("a", None, changing, [4]).tokens == [1, 2]
    lane.tokens.append(9)
    changing[1] = 7
    assert lanes.take("a", None, changing).tokens == [1]


@pytest.mark.parametrize("layers_before", [0, 1])
def test_after_running_out_of_memory_no_lane_stays_taken(
    layers_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = KVCache(2)
    for layer in range(2):
        cache.aim([0], torch.tensor([[0]]), 0)
        cache.resize(1, 1)
        cache.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), layer)
    lanes = rows_of(cache, 1 << 30)
    lanes.take("owner", None, [1, 2])
    plain, made = rectangle_cache._empty, []

    def runs_out(like: torch.Tensor, rows: int, capacity: int) -> torch.Tensor:
        made.append(rows)
        if rows and len(made) > 2 * layers_before:
            raise RuntimeError("you tried to allocate 9 bytes")
        return plain(like, rows, capacity)

    monkeypatch.setattr(rectangle_cache, "_empty", runs_out)
    with pytest.raises(ModelError, match=r"no memory for the keys and values of 900 more tokens"):
        lanes.make_room(900)
    assert not [*lanes]
    assert not lanes.busy
    assert sum(kept.nbytes for layer in cache._ragged for kept in layer.kept()) <= 2 * 2 * 4
    monkeypatch.undo()
    lanes.take("owner", None, [1, 2])
    lanes.make_room(900)
    assert cache.capacity >= 900
