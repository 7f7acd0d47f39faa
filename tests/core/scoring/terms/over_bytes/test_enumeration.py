"""For each kind of tokenizer, the law of the next byte is the sum over all covers of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from support.byte_models import CORNERS, KINDS, ByteModel, byte_model, hash_model

from marith import Engine, Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

TEXTS = ("the  cat", "it's", "a\n\nb", "12 1234", "é東 ", "🎉n", "\n\n\nthe", "   東")
SHORT = ("the", " 12", "é", "\n\nt", "  a")
ANSWERS = ("The subj", "A river", "It's a", "Rivers c", "1. The", "I am 12")


def along(
    model: ByteModel, data: bytes, canonical: bool = True, text: CoveredText | None = None
) -> np.ndarray:
    """Return the probabilities after each beginning of a text, [len(data) + 1, 257]."""
    tokens = SortedTokens(model.vocabulary())
    if text is None:
        compared = CanonicalTokens(model.vocabulary(), tokens) if canonical else None
        text = CoveredText(tokens, compared)
    while (wanted := text.wanted(data)) is not None:
        text.receive(wanted, torch.from_numpy(model.after([0, *wanted])).log())
    return np.stack([row.double().exp().numpy() for row in text.rows(len(data) + 1)])


def require_enumeration(model: ByteModel, data: bytes, canonical: bool) -> None:
    rows = along(model, data, canonical)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-6)
    for end in range(len(data) + 1):
        expected = model.law(data[:end], canonical)
        np.testing.assert_allclose(rows[end], expected, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_have_the_probability_of_their_covers(kind: str, text: str) -> None:
    require_enumeration(byte_model(kind), text.encode(), canonical=True)


@pytest.mark.parametrize("text", SHORT)
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_have_the_probability_of_all_their_tokenisations(kind: str, text: str) -> None:
    require_enumeration(byte_model(kind), text.encode(), canonical=False)


@pytest.mark.parametrize("kind", CORNERS)
def test_every_corner_has_the_covers_of_its_tokenizer(kind: str) -> None:
    model, count = hash_model(kind), 0
    for text in (*TEXTS, "1234567", "<think> 1", "at  the", "a cats"):
        # Some tokenizers lack a character, or compose characters.
        if model.bytes_of(model.encode(text)) == text.encode():
            require_enumeration(model, text.encode(), canonical=True)
            count += 1
    assert count >= 4


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def tokens(engine: Engine) -> SortedTokens:
    return SortedTokens(engine._registry.vocabulary)


def test_covers_are_near_all_tokenisations_for_a_trained_model(
    engine: Engine, tokens: SortedTokens, report: Callable[[str], None]
) -> None:
    """The bound holds where a trained model's probability is: on canonical tokens of its texts."""
    vocabulary = engine._registry.vocabulary
    start = to_tokens(Prompted(), to_prompt("Tell me about rivers."), vocabulary)
    far: list[float] = []
    for data in (text.encode() for text in ANSWERS):
        rows = []
        for canonical in (CanonicalTokens(vocabulary, tokens), None):
            text = CoveredText(tokens, canonical)
            while (wanted := text.wanted(data)) is not None:
                text.receive(wanted, engine.next_logprobs(start, continuation=list(wanted)))
            rows.append(torch.stack(text.rows(len(data) + 1)).double().exp())
        far += ((rows[0] - rows[1]).abs().sum(dim=1) / 2).tolist()
    report(f"covers and all tokenisations: mean TV {np.mean(far):.1e}, largest {max(far):.1e}")
    assert np.mean(far) < 1e-4
    assert max(far) < 2e-3


def test_the_covers_of_a_text_have_more_mass_than_its_canonical_tokens(engine: Engine) -> None:
    text = "The cat said that she's been to 12 towns.\n\nThen it slept."
    terms = {"M": Prompted(template="plain")}
    with Engine.load("pocket", over="bytes") as over_bytes:
        covers = sum(over_bytes.score("A story. ", text, "M", terms))
    assert covers >= sum(engine.score("A story. ", text, "M", terms)) - 1e-3
