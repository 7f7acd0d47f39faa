"""Counting terms: proper distributions, as counted by hand."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from marith.errors import ModelError
from marith.formula.tree.terms import NGram, Uniform
from marith.request.prompt import Prompt, to_prompt
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Span
from marith.scoring.terms.ngram import DISCOUNT, NGramCounts, NGramScorer
from marith.scoring.terms.trivial import UniformScorer
from marith.testing import tiny_tokenizer

texts_of_tokens = st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=5)


def vocabulary() -> Vocabulary:
    return Vocabulary(tiny_tokenizer(("a", "b", "c")), 5)


def scored(term: NGram, continuation: list[int], count: int = 1) -> torch.Tensor:
    scorer = NGramScorer(vocabulary())
    span = Span(term, "lane", scorer.read(term, Prompt()), continuation, count)
    return scorer.score([span])[0].logprobs


@given(order=st.integers(1, 4), texts=texts_of_tokens, before=st.lists(st.integers(0, 5)))
def test_every_context_has_a_proper_distribution_with_no_impossible_token(
    order: int, texts: list[list[int]], before: list[int]
) -> None:
    probs = NGramCounts(order, 6, texts).logprobs(before).exp()
    assert probs.shape == (6,)
    assert float(probs.sum()) == pytest.approx(1, abs=1e-5)
    assert bool((probs > 0).all())


@given(order=st.integers(1, 4), texts=texts_of_tokens, before=st.lists(st.integers(0, 5)))
def test_only_the_last_tokens_of_a_context_count(
    order: int, texts: list[list[int]], before: list[int]
) -> None:
    counts = NGramCounts(order, 6, texts)
    last = before[max(0, len(before) - (order - 1)) :]
    assert torch.equal(counts.logprobs(before), counts.logprobs(last))


def test_order_two_is_what_one_counts_by_hand() -> None:
    # "a b a c" and the end: a is followed by b and c; a, b, c, <end> are seen 2, 1, 1, 1 times.
    logprobs = scored(NGram(texts=("a b a c",)), [2])
    single = {
        t: (n - DISCOUNT) / 5 + DISCOUNT * 4 / 5 / 5 for t, n in {2: 2, 3: 1, 4: 1, 1: 1}.items()
    }
    single[0] = DISCOUNT * 4 / 5 / 5
    passed_on = DISCOUNT * 2 / 2
    want = {
        t: passed_on * p + ((1 - DISCOUNT) / 2 if t in (3, 4) else 0) for t, p in single.items()
    }
    assert logprobs.shape == (1, 5)
    assert logprobs[0].exp().tolist() == pytest.approx([want[t] for t in range(5)], abs=1e-6)


def test_several_positions_are_the_single_ones_in_order() -> None:
    term = NGram(order=3, texts=("a b a c a b b",))
    together = scored(term, [2, 3, 2], 4)
    for end in range(4):
        assert torch.equal(together[end], scored(term, [2, 3, 2][:end])[0])


def test_a_file_is_one_text_a_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b a c\nb b", encoding="utf-8")
    from_file = scored(NGram(path=str(path), order=2), [2])
    assert torch.equal(from_file, scored(NGram(texts=("a b a c\n", "b b")), [2]))


def test_the_prompt_is_not_read() -> None:
    scorer = NGramScorer(vocabulary())
    assert scorer.read(NGram(texts=("a b",)), to_prompt("c c")) == ()


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfa"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"text\.txt"):
        NGramScorer(vocabulary()).read(NGram(path=str(path)), Prompt())


def test_a_text_with_a_token_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(ModelError, match="token 7, outside the model's 6"):
        NGramCounts(2, 6, [[1, 2], [7, 3]])


def test_no_context_reaches_into_the_text_before() -> None:
    parted, joined = NGramCounts(3, 6, [[1, 2], [3, 4]]), NGramCounts(3, 6, [[1, 2, 3, 4]])
    assert torch.equal(parted.logprobs([1, 2]), parted.logprobs([5]))
    assert not torch.equal(joined.logprobs([1, 2]), joined.logprobs([5]))


@given(order=st.integers(1, 5), texts=texts_of_tokens, before=st.lists(st.integers(0, 5)))
def test_the_counts_are_those_of_a_plain_count(
    order: int, texts: list[list[int]], before: list[int]
) -> None:
    probs = [1 / 6] * 6
    for length in range(min(order - 1, len(before)) + 1):
        context = before[len(before) - length :]
        seen = Counter(
            text[i]
            for text in texts
            for i in range(length, len(text))
            if text[i - length : i] == context
        )
        if not seen:
            break
        passed_on = DISCOUNT * len(seen) / seen.total()
        probs = [
            p * passed_on + max(seen[t] - DISCOUNT, 0) / seen.total() for t, p in enumerate(probs)
        ]
    got = NGramCounts(order, 6, texts).logprobs(before).exp().tolist()
    assert got == pytest.approx(probs, rel=1e-5)


def test_uniform_is_the_same_everywhere() -> None:
    scorer = UniformScorer(vocabulary())
    [answer] = scorer.score([Span(Uniform(), 0, scorer.read(Uniform(), Prompt()), [2, 3], 3)])
    assert torch.equal(answer.logprobs, torch.full((3, 5), -math.log(5)))
