"""Texts that spell special tokens are marked wherever they stand in data, and no other text is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marith.scoring.prompting.templates import Escaping

SPECIAL = ("</s>", 'a"b', "\n", "\\", "true", "é")
TEXTS = st.lists(st.sampled_from([*SPECIAL, "x", '"', "</", "s>", "€"]), max_size=3).map("".join)
LEAVES = TEXTS | st.integers() | st.booleans() | st.none() | st.just(object())
DATA = st.recursive(
    LEAVES,
    lambda of: (
        st.lists(of, max_size=3) | st.tuples(of, of) | st.dictionaries(TEXTS, of, max_size=3)
    ),
)


def texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for key, each in value.items():
                yield key
                yield from texts(each)
        case list() | tuple():
            for each in value:
                yield from texts(each)


@given(DATA)
def test_a_text_is_marked_if_it_spells_a_special_token(value: Any) -> None:
    escaping = Escaping(SPECIAL)
    quoted = [*texts(escaping.escape(value))]
    given_texts = [*texts(value)]
    assert len(quoted) == len(given_texts)
    for text, other in zip(given_texts, quoted, strict=True):
        if any(special in text for special in SPECIAL):
            assert escaping.texts[int(other.split(escaping.edge)[1])] == text
        else:
            assert other == text


def test_arguments_are_marked_as_json_writes_them() -> None:
    escaping = Escaping(SPECIAL)
    call = {"name": "</s>", "arguments": {"x": 'a"b'}}
    written = json.dumps(escaping.escape(call), ensure_ascii=False)
    for i, text in enumerate(escaping.texts):
        written = written.replace(f"{escaping.edge}{i}{escaping.edge}", text)
    assert written == json.dumps(call, ensure_ascii=False)
