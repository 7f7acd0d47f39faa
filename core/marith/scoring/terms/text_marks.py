"""Where a text is inside its reasoning, or inside a tool call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import torch

from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import Calling, Reasoning
from marith.request.prompt import Prompt
from marith.scoring.passes.lanes import common
from marith.scoring.passes.questions import Answer, RequestLane, Span
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Detokenizer, Vocabulary
from marith.scoring.scorer import WithoutContext
from marith.tensor_rows import on_device, rows_of

Part: TypeAlias = Literal["start", "reasoning", "text", "call"]
# A text that is rolled back by more tokens is read again from its beginning.
KEPT = 64


@dataclass(slots=True)
class _Reader:
    """The part that a text has reached. `held` are its last characters, which may begin a mark."""

    part: Part
    detokenizer: Detokenizer
    held: str = ""

    def copy(self) -> _Reader:
        return replace(self, detokenizer=copy(self.detokenizer))


@dataclass(slots=True)
class _Read:
    """The text of a lane, as far as it was read.

    `parts` has the part before each token, and after the last token. `readers` are the readers
    after the last tokens, the newest last.
    """

    continuation: Sequence[int]
    tokens: list[int]
    parts: list[Part]
    readers: deque[_Reader] = field(default_factory=lambda: deque(maxlen=KEPT))


class TextMarks(WithoutContext):
    """1 where a text is inside its reasoning, or inside a tool call, and 0 elsewhere.

    The marks around reasoning and calls are those of the model's chat template. Reasoning is
    possible only at the beginning of an answer. After a call is opened, only calls follow. A mark
    counts from the position after its last character.

    Keeps state: the parts of each lane's last text, as long as the lane exists, so that a token is
    read once. The state never changes an answer.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._vocabulary, self._device = vocabulary, device
        self._known: WeakKeyDictionary[RequestLane, _Read] = WeakKeyDictionary()

    def read(self, term: Reasoning | Calling, prompt: Prompt) -> tuple[int, ...]:
        """Return the tokens of the prompt; none for `calling()` if no tool may be called."""
        if isinstance(term, Calling) and not prompt.tools:
            return ()
        return tuple(to_tokens(BARE_MODEL, prompt, self._vocabulary))

    def score(self, spans: Sequence[Span]) -> list[Answer]:
        """Return 1 or 0 for each position, [count, 1] in float32."""
        return [Answer(rows_of(on_device(self._inside(span), self._device))) for span in spans]

    def _inside(self, span: Span) -> torch.Tensor:
        calling = isinstance(span.term, Calling)
        part, end = "call" if calling else "reasoning", len(span.continuation) + 1
        if calling and not span.lane.reading:
            return torch.zeros(span.count, 1)
        parts = self._parts(span.lane, span.continuation)[end - span.count : end]
        return torch.tensor([[float(one == part)] for one in parts])

    def _parts(self, lane: RequestLane, continuation: Sequence[int]) -> Sequence[Part]:
        """Return the part before each token of a text, and after it."""
        read = self._known.get(lane)
        if read is None:
            read = self._known[lane] = self._begun(lane)
        # A continuation that is the same object has only grown at its end.
        if continuation is not read.continuation:
            same = common(read.tokens, list(continuation))
            if same < len(continuation):
                read = self._known[lane] = self._cut(read, same) or self._begun(lane)
            # Tokens that were read beyond this text are compared again when it grows.
            read.continuation = continuation if len(read.tokens) <= len(continuation) else ()
        for token in continuation[len(read.tokens) :]:
            reader = read.readers[-1].copy()
            self._advance(reader, reader.detokenizer.feed(token))
            read.readers.append(reader)
            read.tokens.append(token)
            read.parts.append(reader.part)
        return read.parts

    def _cut(self, read: _Read, length: int) -> _Read | None:
        """Drop the tokens after the first `length` tokens; None if that is too far back."""
        dropped = len(read.tokens) - length
        if dropped >= len(read.readers):
            return None
        for _ in range(dropped):
            read.readers.pop()
        del read.tokens[length:], read.parts[length + 1 :]
        return read

    def _begun(self, lane: RequestLane) -> _Read:
        """Return the state before the first token of a text."""
        tool_format = self._vocabulary.tool_format
        part: Part = "start" if tool_format.thinking else "text"
        if self._vocabulary.opens_reasoning(lane.prompt):
            part = "reasoning"
        calls = tool_format.calls
        marks = [*(tool_format.thinking or ()), calls.opening, calls.joint or "", calls.closing]
        detokenizer = Detokenizer(self._vocabulary, self._vocabulary.special_in("".join(marks)))
        read = _Read((), [], [part])
        read.readers.append(_Reader(part, detokenizer))
        return read

    def _advance(self, reader: _Reader, text: str) -> None:
        """Read more characters."""
        thinking, calls = self._vocabulary.tool_format.thinking, self._vocabulary.tool_format.calls
        begin, end = thinking or ("", "")
        reader.held += text
        while reader.part != "call":
            if reader.part == "start":
                reader.held = reader.held.lstrip()
                if not reader.held.startswith(begin) and begin.startswith(reader.held):
                    return
                begins = reader.held.startswith(begin)
                reader.held = reader.held.removeprefix(begin)
                reader.part = "reasoning" if begins else "text"
                continue
            mark = end if reader.part == "reasoning" else calls.opening
            _, found, after = reader.held.partition(mark)
            if not found:
                reader.held = reader.held[-len(mark) + 1 :] if len(mark) > 1 else ""
                return
            reader.held = after
            reader.part = "text" if reader.part == "reasoning" else "call"
        reader.held = ""
