"""Text in, tokens out, whatever others do to the tokenizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import TEXTS, byte_level
from transformers import AddedToken

from marith.errors import ModelError
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_tokenizer


def test_sixteen_threads_encode_as_one() -> None:
    vocabulary = byte_level()
    work = [(f"{text} {i} <s>", i % 2 == 0) for i in range(60) for text in TEXTS]

    def encode(item: tuple[str, bool]) -> tuple[list[int], str]:
        tokens = vocabulary.encode(item[0], literal=item[1])
        return tokens, vocabulary.decode(tokens)

    alone = [encode(item) for item in work]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(encode, work)) == alone


def test_padding_and_truncation_of_the_callers_tokenizer_change_nothing() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=10)
    vocabulary = Vocabulary(tokenizer, 28)
    want = list(range(2, 10))
    assert vocabulary.encode("a b c d e f g h") == want
    tokenizer.backend_tokenizer.enable_truncation(2)
    assert vocabulary.encode("a b c d e f g h") == want
    assert tokenizer.backend_tokenizer.truncation["max_length"] == 2


@given(
    one=st.permutations("abcd").map(tuple),
    other=st.permutations("abcd").map(tuple),
    widths=st.tuples(st.integers(3, 9), st.integers(3, 9)),
)
def test_fingerprints_are_equal_exactly_when_the_vocabularies_are(
    one: tuple[str, ...], other: tuple[str, ...], widths: tuple[int, int]
) -> None:
    a, b = Vocabulary(tiny_tokenizer(one), widths[0]), Vocabulary(tiny_tokenizer(other), widths[1])
    same = one[: a.size - 2] == other[: b.size - 2]
    assert (a.fingerprint == b.fingerprint) == same


def test_size_counts_what_model_and_tokenizer_both_know() -> None:
    assert Vocabulary(tiny_tokenizer(), 1000).size == 28
    assert Vocabulary(tiny_tokenizer(), 20).size == 20


def test_end_tokens_of_tokenizer_and_configuration_are_all_end_tokens() -> None:
    assert Vocabulary(tiny_tokenizer(), 28, [5, 7]).eos_ids == {1, 5, 7}


def test_literal_text_spells_no_special_token() -> None:
    vocabulary = byte_level()
    assert vocabulary.encode("<s>", literal=False) == [0]
    letters = vocabulary.encode("<s>")
    assert not {0, 1} & set(letters)
    assert vocabulary.decode(letters) == "<s>"


def test_special_tokens_beyond_start_and_end_are_known_as_special() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.add_special_tokens([AddedToken("<turn>", special=True)])
    vocabulary = Vocabulary(tokenizer, 40)
    assert "<turn>" in vocabulary.special_texts


def test_a_slow_tokenizer_is_refused_by_name() -> None:
    class SlowTokenizer:
        eos_token_id = 0

    with pytest.raises(ModelError, match="SlowTokenizer has no fast tokenizer"):
        Vocabulary(SlowTokenizer(), 10)
