"""The distribution over bytes agrees with a sum over all covers, each computed by itself."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from torch import Tensor

from marith import Engine, Prompted
from marith.scoring.terms.over_bytes.byte_vocabulary import END, SIZE
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

PROMPT = [1]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def tokens(engine: Engine) -> SortedTokens:
    return SortedTokens(engine._registry.vocabulary)


def _after(engine: Engine, tokens: Sequence[int]) -> Tensor:
    return engine.next_logprobs(PROMPT, continuation=list(tokens))


def _along(engine: Engine, text: CoveredText, data: bytes) -> np.ndarray:
    """Return the probabilities after each beginning of a text, [len(data) + 1, 257]."""
    while (wanted := text.wanted(data)) is not None:
        text.receive(wanted, _after(engine, wanted))
    return np.stack([row.double().exp().numpy() for row in text.rows(len(data) + 1)])


def _by_enumeration(engine: Engine, tokens: SortedTokens, data: bytes, every: bool) -> np.ndarray:
    """Return the probabilities of the byte after `data`, from every cover by itself."""
    encode = engine._registry.vocabulary.literal.encode
    mass = np.zeros(SIZE)

    def goes_on(ids: tuple[int, ...]) -> bool:
        if every:
            return True
        try:
            text = tokens.bytes_of(ids).decode()
            return any(encode(text + rest).ids[: len(ids)] == [*ids] for rest in ("", "\x7f"))
        except UnicodeDecodeError as error:
            return error.reason == "unexpected end of data" and (len(ids) < 2 or goes_on(ids[:-1]))

    def visit(ids: tuple[int, ...], probability: float, left: bytes) -> None:
        row = _after(engine, ids).double().exp().numpy()
        for token, text in enumerate(tokens.bytes_of_token):
            if text and left.startswith(text):
                if goes_on((*ids, token)):
                    visit((*ids, token), probability * row[token], left[len(text) :])
            elif len(text) > len(left) and text.startswith(left):
                mass[text[len(left)]] += probability * row[token]
        if not left:
            mass[END] += probability * row[tokens.end_ids].sum()

    visit((), 1.0, data)
    return mass / mass.sum()


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("text", ["Hello", "  1 a", "\n\n b", "é東", "it's"])
def test_the_bytes_agree_with_the_enumeration_of_all_covers(
    engine: Engine, tokens: SortedTokens, text: str, every: bool
) -> None:
    canonical = None if every else CanonicalTokens(engine._registry.vocabulary, tokens)
    data = text.encode()
    rows = _along(engine, CoveredText(tokens, canonical), data)
    for end in range(len(data) + 1):
        assert rows[end].sum() == pytest.approx(1, abs=1e-6)
        expected = _by_enumeration(engine, tokens, data[:end], every)
        np.testing.assert_allclose(rows[end], expected, atol=1e-5, rtol=1e-4)


def test_a_text_that_is_rolled_back_has_the_distributions_of_a_new_text(
    engine: Engine, tokens: SortedTokens
) -> None:
    canonical = CanonicalTokens(engine._registry.vocabulary, tokens)
    text = CoveredText(tokens, canonical)
    _along(engine, text, b"The cat sat on the mat.")
    for data in (b"The cat said", b"The", b"", b"Two dogs"):
        new = _along(engine, CoveredText(tokens, canonical), data)
        np.testing.assert_allclose(_along(engine, text, data), new, atol=1e-6)


def test_the_covers_of_a_text_have_more_mass_than_its_canonical_tokens(engine: Engine) -> None:
    text = "The cat said that she's been to 12 towns.\n\nThen it slept."
    terms = {"M": Prompted(template="plain")}
    with Engine.load("pocket", over="bytes") as over_bytes:
        covers = sum(over_bytes.score("A story. ", text, "M", terms))
    assert covers >= sum(engine.score("A story. ", text, "M", terms)) - 1e-3
