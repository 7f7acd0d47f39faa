"""The numbers that say whether a text is inside its reasoning, or inside a tool call."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import Calling, Reasoning
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Answer, RequestLane, Span
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.text_parts import TextParts
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import WithoutContext
from marith.tensor_rows import on_device, rows_of


class TextMarks(WithoutContext):
    """1 where a text is inside its reasoning, or inside a tool call, and 0 elsewhere.

    Keeps state: the parts of each lane's text, as long as the lane exists. The state never changes
    an answer.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._vocabulary, self._device = vocabulary, device
        self._known: WeakKeyDictionary[RequestLane, TextParts] = WeakKeyDictionary()

    def read(self, term: Reasoning | Calling, prompt: Prompt) -> tuple[int, ...]:
        """Return the tokens of the prompt; none for `calling()` if no tool may be called."""
        if isinstance(term, Calling) and not prompt.tools:
            return ()
        return tuple(to_tokens(BARE_MODEL, prompt, self._vocabulary))

    def score(self, spans: Sequence[Span]) -> list[Answer]:
        """Return 1 or 0 for each position, [count, 1] in float32."""
        return [Answer(rows_of(on_device(self._inside(span), self._device))) for span in spans]

    def _inside(self, span: Span) -> torch.Tensor:
        lane, calling = span.lane, isinstance(span.term, Calling)
        if calling and not lane.reading:
            return torch.zeros(span.count, 1)
        parts = self._known.get(lane)
        if parts is None:
            opened = self._vocabulary.opens_reasoning(lane.prompt)
            parts = self._known[lane] = TextParts(self._vocabulary, opened)
        end, part = len(span.continuation) + 1, "call" if calling else "reasoning"
        places = parts.places(span.continuation)[end - span.count : end]
        return torch.tensor([[float(place.part == part)] for place in places])
