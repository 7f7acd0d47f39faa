"""Terms that are tables: log-probabilities of three tokens after every text of up to five.

The tables are random and fixed, in float64. `composed` computes the distribution of a formula and
its sampling from them, by numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from marith import Sampling

Row = NDArray[np.float64]
Rows = Mapping[str, Row]  # of each name the row after one text, [VOCAB]
Law = Callable[[Rows, Sequence[int]], Row]  # scores from the rows after a text, and the text

VOCAB, MOST = 3, 6  # tokens, and the length of a text
TEXTS = [text for count in range(MOST) for text in product(range(VOCAB), repeat=count)]
NUMBER = {text: number for number, text in enumerate(TEXTS)}


def log_softmax(scores: Row) -> Row:
    with np.errstate(divide="ignore"):
        masses = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.log(masses / masses.sum(axis=-1, keepdims=True))


def _tables() -> dict[str, Row]:
    """Return a table [texts, VOCAB] for each name. In `h` a third of the tokens is impossible."""
    rng = np.random.default_rng(17)
    shape = len(TEXTS), VOCAB
    tables = {name: log_softmax(1.2 * rng.normal(size=shape)) for name in "Mabcdeh"}
    tables["h"][np.arange(len(TEXTS)), rng.integers(VOCAB, size=len(TEXTS))] = -np.inf
    tables["h"] = log_softmax(tables["h"])
    tables["C"] = rng.normal(size=shape)  # a classifier's log-ratios
    tables["N"] = log_softmax(rng.normal(size=shape))
    return tables


TABLES = _tables()
# What is proposed outright after each text: tokens up to the first that is no token.
PROPOSALS = np.random.default_rng(18).integers(VOCAB + 1, size=(len(TEXTS), MOST))


def proposed(text: Sequence[int], most: int) -> list[int]:
    """Return at most `most` tokens, perhaps none, that a proposer suggests after a text."""
    tokens = PROPOSALS[NUMBER[tuple(text)]].tolist()
    return tokens[: min(most, [*tokens, VOCAB].index(VOCAB))]


def composed(law: Law, sampling: Sampling, text: Sequence[int]) -> Row:
    """Return the probabilities [VOCAB] after a text. `law` computes scores from rows."""
    at = NUMBER[tuple(text)]
    logprobs = log_softmax(law({name: table[at] for name, table in TABLES.items()}, text))
    return np.exp(_warped(logprobs, sampling, text))


def _warped(logprobs: Row, sampling: Sampling, text: Sequence[int]) -> Row:
    seen = np.isin(np.arange(VOCAB), list(text))
    logprobs = np.where(seen, logprobs * sampling.repetition_penalty, logprobs)
    logprobs = logprobs - sampling.presence_penalty * seen
    for token in text:
        logprobs = logprobs - sampling.frequency_penalty * (np.arange(VOCAB) == token)
    for token, bias in dict(sampling.logit_bias).items():
        logprobs = logprobs + bias * (np.arange(VOCAB) == token)
    logprobs = log_softmax(log_softmax(logprobs) / sampling.temperature)
    if sampling.top_k is not None:
        logprobs = cut_top_k(logprobs, sampling.top_k)
    if sampling.top_p < 1.0:
        order = np.argsort(-logprobs)
        before = np.cumsum(np.exp(logprobs[order])) - np.exp(logprobs[order])
        kept = order[before < sampling.top_p]
        logprobs = log_softmax(np.where(np.isin(np.arange(VOCAB), kept), logprobs, -np.inf))
    if sampling.min_p > 0.0:
        logprobs = cut_min_p(logprobs, sampling.min_p)
    return logprobs


def cut_top_k(scores: Row, k: int) -> Row:
    """Return the distribution on the k likeliest tokens."""
    return log_softmax(np.where(scores >= np.sort(scores)[-k], scores, -np.inf))


def cut_min_p(scores: Row, alpha: float) -> Row:
    """Return the distribution on the tokens at least `alpha` times as likely as the likeliest."""
    return log_softmax(np.where(scores >= scores.max() + np.log(alpha), scores, -np.inf))
