"""Inspect a text in one pass over it, in steps of bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from marith.decoding.blocks import Block
from marith.decoding.matcher import Lexicon
from marith.engine.jobs.queries import TextQuery
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.inspection.inspected_position import InspectedPosition
from marith.inspection.inspection import Inspection
from marith.inspection.position_measures import InspectedFormula, PositionMeasures
from marith.scoring.passes.questions import Answer

AT_ONCE = 1 << 22  # log-probabilities that are measured together


class TokenTexts:
    """Decodes each token once. The text of a special token is its name."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._known: dict[int, str] = {}

    def of(self, token: int) -> str:
        r"""Return the text of one token, with the bytes of an incomplete character as `\xc3`."""
        if token not in self._known:
            self._known[token] = self._lexicon.data_of(token).decode(errors="backslashreplace")
        return self._known[token]

    def completed(self, tokens: Sequence[int]) -> list[str | None]:
        """Return `InspectedPosition.completed` for each token of a text."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found: list[str | None] = []
        pending = b""
        for token in tokens:
            before, data = pending, self._lexicon.data_of(token)
            text = decoder.decode(data)
            pending = decoder.getstate()[0]
            found.append(text if before or pending else None)
        # The text ends inside of a character, which stays incomplete.
        if pending:
            found[-1] = f"{found[-1]}{decoder.decode(b'', final=True)}"
        return found


class Inspecting(TextQuery[Inspection]):
    """The inspection of a continuation's tokens from `start` on; see `Inspection`."""

    def __init__(
        self,
        prepared: Prepared,
        continuation: Sequence[int],
        formula: InspectedFormula,
        texts: TokenTexts,
        text: str,
        start: int = 0,
    ) -> None:
        super().__init__(prepared, continuation, start)
        self._formula, self._texts, self._text = formula, texts, text
        self._start = start
        self._positions: list[InspectedPosition] = []
        self._answers: Mapping[Term, Answer] = {}
        if start == len(continuation):
            self.future.give(self.result())

    def receive(self, answers: Mapping[Term, Answer]) -> Block:
        """Keep the rows of every term, and compose the formula."""
        self._answers = dict(answers)
        return super().receive(answers)

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        """Inspect the next positions, a limited number of them at once."""
        rows = {term: scored.logprobs for term, scored in self._answers.items()}
        at_once = max(1, AT_ONCE // ((len(rows) + 1) * logprobs.shape[-1]))
        positions: list[InspectedPosition] = []
        for first in range(0, len(tokens), at_once):
            part = slice(first, first + at_once)
            some = {term: values[part] for term, values in rows.items()}
            measures = PositionMeasures(
                self._formula, some, logprobs[part], tokens[part], self._texts.of
            )
            positions += measures.positions(self._known + first)
        self._positions += positions
        self._answers = {}

    def result(self) -> Inspection:
        """Return the inspection, once all positions are inspected."""
        formula = self._formula
        completed = self._texts.completed(self._continuation)[self._start :]
        positions = zip(self._positions, completed, strict=True)
        return Inspection(
            formula.text,
            self._text,
            formula.top,
            formula.described_terms(),
            formula.described_parts(),
            tuple(map(str, formula.observations)),
            tuple(p if text is None else replace(p, completed=text) for p, text in positions),
        )
