"""The distribution of the next byte of a model of tokens, by the covers of the bytes so far.

A cover is a token sequence whose last token ends at or after the last byte. The probability of
bytes is the sum of the probabilities of their covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marith import Engine, Request
from marith.engine.jobs.queries import NextLogprobs
from tools.byte_prototype.vocabulary import END, ByteVocabulary

# By default, covers are dropped at a byte while their share of the mass is at most this number.
BOUND = 1e-6
# The canonicality of a token is checked if its share of the mass is larger than this number.
CHECKED = 1e-5


@dataclass(slots=True)
class _Node:
    """Tokens that end before or at the last byte, and the tokens that may follow them.

    `low` is the place of the slice of tokens that begin with the bytes after `tokens`. `masses` are
    the probabilities of this slice, or None before the model has computed them, and `unchecked` is
    true for tokens that may not be canonical. `depth` is the number of these bytes.
    """

    tokens: tuple[int, ...]
    weight: float
    low: int = 0
    depth: int = 0
    masses: np.ndarray | None = None
    unchecked: np.ndarray | None = None
    end: float = 0.0


@dataclass(slots=True)
class Counts:
    """The rows of the model that one text took, and the shares of mass that were dropped."""

    bytes: int = 0
    rows: int = 0
    dropped: float = 0.0
    unchecked: float = 0.0
    not_canonical: float = 0.0
    weights: list[list[float]] = field(default_factory=list)


class ByteText:
    """A text that grows byte by byte, and the distribution of its next byte.

    `pending` are the token sequences whose next-token probabilities are needed first; `receive`
    takes them. If `canonical` is false, all token sequences count.
    """

    def __init__(
        self,
        vocabulary: ByteVocabulary,
        canonical: bool = True,
        bound: float = BOUND,
        checked: float = CHECKED,
    ) -> None:
        self.counts = Counts()
        self.mass = 0.0  # the logarithm of the mass of all covers of the bytes
        self._vocabulary = vocabulary
        self._canonical, self._bound, self._checked = canonical, bound, checked
        self._nodes = [_Node((), 1.0)]

    @property
    def pending(self) -> list[tuple[int, ...]]:
        """The token sequences after which the model's probabilities are needed."""
        return [node.tokens for node in self._nodes if node.masses is None]

    def receive(self, rows: Sequence[np.ndarray]) -> None:
        """Take the log-probabilities [vocab] after each pending token sequence."""
        new = [node for node in self._nodes if node.masses is None]
        self.counts.weights.append([node.weight for node in new])
        for node, row in zip(new, rows, strict=True):
            self.counts.rows += 1
            probabilities = np.exp(row.astype(np.float64))
            masses = probabilities[self._vocabulary.ids]
            node.end = float(probabilities[self._vocabulary.ends].sum())
            node.masses = masses
            node.unchecked = np.full(len(masses), self._canonical)
            if self._canonical:
                self._keep_canonical(node)
                self.counts.unchecked += node.weight * float(masses[node.unchecked].sum())
                if not self._vocabulary.is_canonical(node.tokens):
                    node.end = 0.0

    def logprobs(self) -> np.ndarray:
        """Return the log-probabilities [257] of the bytes and of the end."""
        mass = np.zeros(END + 1)
        for node in self._nodes:
            there = self._vocabulary.column(node.depth)[node.low : node.low + len(node.masses)]
            # No token ends here: those that do are nodes of their own.
            mass[:END] += node.weight * np.bincount(there, node.masses, END)
            if node.depth == 0:
                mass[END] += node.weight * node.end
        with np.errstate(divide="ignore"):
            return np.log(mass / mass.sum())

    def advance(self, byte: int) -> None:
        """Append a byte to the text.

        Raises ValueError if no cover goes on with the byte, and the text stays as it was.
        """
        kept: list[_Node] = []
        for node in self._nodes:
            there = self._vocabulary.column(node.depth)[node.low : node.low + len(node.masses)]
            start, stop = np.searchsorted(there, (byte, byte + 1))
            masses, low = node.masses[start:stop], node.low + int(start)
            after = self._vocabulary.column(node.depth + 1)[low : low + len(masses)]
            whole = int(np.searchsorted(after, 0))
            for place in np.flatnonzero(masses[:whole]):
                tokens = (*node.tokens, int(self._vocabulary.ids[low + place]))
                if not self._canonical or self._vocabulary.is_viable(tokens):
                    kept.append(_Node(tokens, node.weight * float(masses[place])))
            if masses[whole:].any():
                longer = _Node(node.tokens, node.weight, low + whole, node.depth + 1)
                longer.masses = masses[whole:].copy()
                longer.unchecked = node.unchecked[start + whole : stop]
                kept.append(longer)
        self._nodes = self._pruned(kept)
        self.counts.bytes += 1

    def _pruned(self, nodes: list[_Node]) -> list[_Node]:
        """Drop the smallest covers within the bound, and divide the weights by the whole mass."""
        while True:
            total = sum(map(_share, nodes))
            if not total:
                raise ValueError("no token of the model goes on with this byte")
            for node in nodes:
                node.weight /= total
            self.mass += float(np.log(total))
            # The share of a token has grown, so it may have to be checked now.
            found = [self._keep_canonical(node) for node in nodes if node.masses is not None]
            if not any(found):
                break
        # Covers of equal weight are ordered by their tokens.
        nodes.sort(key=lambda node: (_share(node), node.tokens))
        dropped, first = 0.0, 0
        while dropped + _share(nodes[first]) <= self._bound:
            dropped += _share(nodes[first])
            first += 1
        self.counts.dropped += dropped
        return nodes[first:]

    def _keep_canonical(self, node: _Node) -> bool:
        """Check the tokens with a share above the limit. Return True if some had mass, and lose it.

        A token loses its mass if the text would not be canonical with it.
        """
        checked = np.flatnonzero(node.unchecked & (node.masses * node.weight > self._checked))
        if not len(checked):
            return False
        # The slice of a token that has been checked may be shared with an earlier state.
        node.unchecked = node.unchecked.copy()
        node.unchecked[checked] = False
        tokens = self._vocabulary.ids[node.low + checked].tolist()
        wrong = checked[~self._vocabulary.viable_among(node.tokens, tokens)]
        self.counts.not_canonical += node.weight * float(node.masses[wrong].sum())
        node.masses[wrong] = 0
        return bool(len(wrong))


def _share(node: _Node) -> float:
    """Return the share of the covers of a node, which end with its tokens or with longer ones."""
    return node.weight if node.masses is None else node.weight * float(node.masses.sum())


class TokenModel:
    """A language model of an engine, read after one prompt for each text.

    `rows` and `batches` count the rows that the model computed, and the batches they came in.
    """

    def __init__(self, engine: Engine, formula: str = "M", terms: Any = None) -> None:
        self.engine, self._formula, self._terms = engine, formula, terms
        self.rows = self.batches = 0

    def feed(self, texts: Sequence[tuple[ByteText, Any]]) -> None:
        """Compute what the texts wait for. Each comes with its prompt."""
        asked = [(text, prompt, tokens) for text, prompt in texts for tokens in text.pending]
        futures = [self._next(prompt, tokens) for _, prompt, tokens in asked]
        rows = [future.result().numpy() for future in futures]
        self.rows += len(rows)
        self.batches += bool(rows)
        start = 0
        for text, _ in texts:
            count = len(text.pending)
            text.receive(rows[start : start + count])
            start += count

    def _next(self, prompt: Any, tokens: tuple[int, ...]) -> Any:
        request = Request(prompt, self._formula, self._terms, speculation=None)
        return self.engine.run(NextLogprobs(*self.engine.open_at(request, tokens)))
