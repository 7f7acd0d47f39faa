"""Counting terms: proper distributions, as counted by hand."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.runner_questions import opened

from marith.errors import ModelError
from marith.formula.tree.terms import NGram, Uniform
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Span
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.ngram_counts import DISCOUNT, NGramCounts
from marith.scoring.terms.ngram_scorer import NGramScorer
from marith.scoring.terms.trivial import UniformScorer
from marith.testing import tiny_tokenizer

texts_of_tokens = st.lists(st.lists(st.integers(0, 5), max_size=12), max_size=5)


def vocabulary() -> Vocabulary:
    return Vocabulary(tiny_tokenizer(("a", "b", "c")), 5)


def scored(term: NGram, continuation: list[int], count: int = 1) -> torch.Tensor:
    scorer = NGramScorer(vocabulary())
    lane = opened(scorer, term, scorer.read(term, Prompt()))
    span = Span(term, lane, continuation, count)
    return scorer.score([span])[0].logprobs


@given(order=st.integers(1, 4), texts=texts_of_tokens, before=st.lists(st.integers(0, 5)))
def test_every_context_has_a_proper_distribution_with_no_impossible_token(
    order: int, texts: list[list[int]], before: list[int]
) -> None:
    probs = NGramCounts(order, 6, texts).logprobs(before).exp()
    assert probs.shape == (6,)
    assert float(probs.sum()) == pytest.approx(1, abs=1e-5)
    assert bool((probs > 0).all())


def test_a_file_is_one_text_a_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a b a c\nb b", encoding="utf-8")
    from_file = scored(NGram(path=str(path), order=2), [2])
    assert torch.equal(from_file, scored(NGram(texts=("a b a c\n", "b b")), [2]))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfa"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"text\.txt"):
        NGramScorer(vocabulary()).load(NGram(path=str(path)))


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_empty_file_is_logged_when_the_n_gram_is_fitted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content, encoding="utf-8")
    scorer, term = NGramScorer(vocabulary()), NGram(path=str(path))
    counts = [scorer.load(term) for _ in range(3)]
    assert counts[0] is counts[2]
    [once] = caplog.messages
    assert f"the n-gram's text {str(path)!r} is empty" in once
    path.write_text("a b", encoding="utf-8")
    scorer.load(term)
    assert len(caplog.messages) == 1


def test_a_text_with_a_token_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(ModelError, match="token 7, outside the model's 6"):
        NGramCounts(2, 6, [[1, 2], [7, 3]])


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
    lane = opened(scorer, Uniform(), scorer.read(Uniform(), Prompt()))
    [answer] = scorer.score([Span(Uniform(), lane, [2, 3], 3)])
    assert torch.equal(answer.logprobs, torch.full((3, 5), -math.log(5)))
