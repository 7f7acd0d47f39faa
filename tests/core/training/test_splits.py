"""Which texts are trained on and which are held out, and their order: laws for all data."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith.errors import RequestError
from marith.training.labelled_texts import LabelledText, class_names, epoch, epoch_size, split

labels = st.sampled_from(["a", "b", "c"])
data = st.lists(st.tuples(st.integers(0, 30).map(str), labels), min_size=8, max_size=60)
classes = st.lists(st.integers(0, 2), min_size=3, max_size=40).filter(lambda c: len({*c}) > 1)


def as_rows(pairs: list[tuple[str, str]]) -> list[LabelledText]:
    return [
        LabelledText(text, label, f"line {i}") for i, (text, label) in enumerate(pairs, start=1)
    ]


@given(data, st.floats(0.01, 0.99), st.integers(0, 3))
def test_every_row_is_on_one_side_and_no_text_on_both(
    pairs: list[tuple[str, str]], share: float, seed: int
) -> None:
    rows = as_rows(pairs)
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row.text, row.label)
    own = Counter(first.values())
    if any(own[row.label] < 2 for row in rows):
        with pytest.raises(RequestError, match="needs two: one to learn from, one held out"):
            split(rows, share, seed)
        return
    sides = split(rows, share, seed)
    assert sorted((*sides.learned, *sides.held_out), key=rows.index) == rows
    texts = [{row.text for row in side} for side in (sides.learned, sides.held_out)]
    assert not texts[0] & texts[1]
    for side in texts:
        assert {first[text] for text in side} == set(own)
    for label, count in own.items():
        held = sum(first[text] == label for text in texts[1])
        assert abs(held - share * count) <= 1
    assert split(rows, share, seed) == sides


@given(classes, st.booleans(), st.integers(0, 5))
def test_an_epoch_has_each_example_at_most_once_and_balanced_as_many_of_every_class(
    told: list[int], balance: bool, number: int
) -> None:
    order = epoch(told, balance, 0, number)
    assert len(order) == len(set(order)) == epoch_size(told, balance)
    counts = Counter(told[place] for place in order)
    expected = Counter(told)
    if balance:
        assert set(counts.values()) == {min(expected.values())}
        assert set(counts) == set(expected)
    else:
        assert counts == expected
    assert epoch(told, balance, 0, number) == order


def test_all_of_a_large_class_are_seen_over_several_epochs() -> None:
    told = [0] * 2 + [1] * 10
    assert {i for number in range(40) for i in epoch(told, True, 0, number)} == set(range(12))


def test_numbers_are_ordered_by_value_and_names_by_the_alphabet() -> None:
    assert class_names(as_rows([("", n) for n in ("10", "9", "-1")])) == ("-1", "9", "10")
    assert class_names(as_rows([("", n) for n in ("toxic", "10", "9")])) == ("10", "9", "toxic")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("toxic", "toxic"), "all rows have the class 'toxic'"),
        (("toxic", "Toxic", "civil"), "the labels 'Toxic' and 'toxic' differ only in case"),
    ],
)
def test_classes_that_nobody_can_tell_apart_are_refused(
    names: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(RequestError, match=problem):
        class_names(as_rows([("", name) for name in names]))
