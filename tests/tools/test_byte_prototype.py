"""The prototype of byte distributions agrees with a sum over all covers of the bytes."""

from collections.abc import Iterator

import numpy as np
import pytest

from marith import Engine
from tools.byte_prototype.covers import ByteText, TokenModel
from tools.byte_prototype.vocabulary import END, ByteVocabulary

PROMPT = [1]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def vocabulary(engine: Engine) -> ByteVocabulary:
    return ByteVocabulary(engine._registry.vocabulary)


def _logprobs_along(model: TokenModel, text: ByteText, data: bytes) -> list[np.ndarray]:
    rows = []
    for byte in data:
        model.feed([(text, PROMPT)])
        rows.append(text.logprobs())
        text.advance(byte)
    model.feed([(text, PROMPT)])
    return [*rows, text.logprobs()]


def _by_enumeration(
    engine: Engine, vocabulary: ByteVocabulary, data: bytes, canonical: bool
) -> np.ndarray:
    """Return the log-probabilities of the byte after `data`, from every cover by itself."""
    mass = np.zeros(END + 1)

    def allowed(tokens: tuple[int, ...]) -> bool:
        """Compare the tokens of the whole text, with every character that may follow it."""
        if not canonical:
            return True
        text = vocabulary.bytes_of(tokens)
        raw = engine._registry.vocabulary.literal
        try:
            decoded = text.decode()
        except UnicodeDecodeError as problem:
            if problem.reason != "unexpected end of data":
                return False
            return allowed(tokens[:-1])
        return any(
            tuple(raw.encode(decoded + more).ids[: len(tokens)]) == tokens
            and (more or len(raw.encode(decoded).ids) == len(tokens))
            for more in ("", "a", "1", ".")
            if not more or decoded[-1:].isspace()
        )

    def visit(tokens: tuple[int, ...], probability: float, left: bytes) -> None:
        row = engine.next_logprobs(PROMPT, continuation=list(tokens)).double().exp().numpy()
        for token, text in vocabulary.data.items():
            if left.startswith(text) and text and allowed((*tokens, token)):
                visit((*tokens, token), probability * row[token], left[len(text) :])
            elif len(text) > len(left) and text.startswith(left) and allowed((*tokens, token)):
                mass[text[len(left)]] += probability * row[token]
        if not left and (not canonical or vocabulary.is_canonical(tokens)):
            mass[END] += probability * row[vocabulary.ends].sum()

    visit((), 1.0, data)
    with np.errstate(divide="ignore"):
        return np.log(mass / mass.sum())


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("text", ["Hello", "  1 a", "\n\n b", "é東", "it's"])
def test_bytes_agree_with_the_enumeration_of_all_covers(
    engine: Engine, vocabulary: ByteVocabulary, text: str, canonical: bool
) -> None:
    data = text.encode()
    own = ByteText(vocabulary, canonical, bound=0, checked=0)
    rows = _logprobs_along(TokenModel(engine), own, data)
    for end in range(len(data) + 1):
        expected = _by_enumeration(engine, vocabulary, data[:end], canonical)
        assert np.exp(rows[end]).sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(np.exp(rows[end]), np.exp(expected), atol=1e-5, rtol=1e-4)


def test_covers_add_mass_to_the_canonical_tokens(
    engine: Engine, vocabulary: ByteVocabulary
) -> None:
    text = "The cat said that she's been to 12 towns.\n\nThen it slept."
    own = ByteText(vocabulary)
    rows = _logprobs_along(TokenModel(engine), own, text.encode())
    bits = -sum(row[byte] for row, byte in zip(rows, text.encode(), strict=False))
    tokens = engine._registry.vocabulary.encode(text)
    assert bits <= -sum(engine.score(PROMPT, tokens)) + 1e-4
    assert own.counts.dropped < 1e-6 * len(text)
