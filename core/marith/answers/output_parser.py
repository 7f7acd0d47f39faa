"""Split an answer, as its text arrives, into reasoning, text and calls of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from uuid import uuid4

from marith.request.completion import CallChunk
from marith.scoring.prompting.tool_format import ToolFormat, json_text

State: TypeAlias = Literal["start", "reasoning", "text", "name", "arguments", "after", "over"]


class Piece(NamedTuple):
    """Characters of an answer, all of one kind. `start` is the number of the first character.

    If `last`, no more characters of this kind follow. A piece of a call has a chunk instead of
    text.
    """

    kind: Literal["reasoning", "text", "call"]
    text: str
    start: int
    last: bool = False
    call: CallChunk | None = None


class OutputParser:
    """Splits an answer into pieces. Characters that may begin a mark are `held` back.

    `tool_format` has the model's marks for calls and reasoning. `names` are the tools that may be
    called. A mark without such a name after it is text, for example in JSON that begins like a
    call. If `opened`, the prompt has begun the reasoning. Without `has_text`, an answer has only
    calls. White space around reasoning belongs to neither the reasoning nor the text.

    `calls` counts the calls so far. A call is held back while it is equal to the beginning of an
    earlier call. If the whole call is equal to an earlier call, it is dropped, and the answer is
    over: `repeated` is True. Keeps state; can be copied.
    """

    def __init__(
        self, tool_format: ToolFormat, names: Sequence[str], opened: bool, has_text: bool = True
    ) -> None:
        self._marks = tool_format.calls
        self._names = {json_text(name) + self._marks.middle: name for name in names}
        self._reasoning_begins, self._reasoning_ends = tool_format.thinking or ("", "")
        self._has_text = has_text
        self.state: State = "start" if tool_format.thinking else "text"
        if opened:
            self.state = "reasoning"
        self.calls = 0
        self.repeated = False
        self._made: tuple[str, ...] = ()  # names and arguments of the calls so far, as written
        self._call = ""  # the name and arguments of the call being read
        self._doubted: tuple[Piece, ...] = ()  # pieces of a call that may repeat an earlier call
        self.held = ""
        self._start = 0  # the number of the first character that is held
        self._trims = opened  # whether white space is skipped
        self._json = JsonState()

    @property
    def pending(self) -> bool:
        """True if characters are held back that may be text or reasoning."""
        # Before the first call, a mark without a name after it is text.
        if self.state == "name":
            return not self.calls
        return bool(self.held) and self.state in ("start", "reasoning", "text")

    def read(self, pieces: Iterable[Piece], cut: bool = False) -> list[Piece]:
        """Split the text of these pieces as far as it is certain.

        After the last piece, the whole text is certain. `cut` is as for `flush`.
        """
        parsed: list[Piece] = []
        for piece in pieces:
            parsed += self.feed(piece.text)
            if piece.last:
                parsed += self.flush(cut)
        return parsed

    def feed(self, text: str) -> list[Piece]:
        """Add text, and return the pieces that are certain now."""
        self.held += text
        parsed: list[Piece] = []
        while (pieces := self._next()) is not None:
            parsed += pieces
        return parsed

    def flush(self, cut: bool = False) -> list[Piece]:
        """Return the pieces that remain when the answer is over.

        If the model ended the answer, held characters are not a mark. If `max_tokens` has `cut` the
        answer, an incomplete mark of reasoning is dropped.
        """
        match self.state:
            case "reasoning":
                kept = before_mark(self.held, self._reasoning_ends)[0] if cut else self.held
                return [self._cut(len(kept), "reasoning", last=True)]
            case "start" if cut and self.held.strip():
                return [end_of_text(self._start, "")]
            case "start" | "text" if self._has_text:
                return [self._cut(len(self.held), "text", last=True)]
            case "start" | "text" if not self.calls:
                # Half a mark of a call is not text.
                return [end_of_text(self._start, "")]
            case "name" if not self.calls:
                return [end_of_text(self._start, self._marks.opening)]
            case "arguments":
                return [*self._doubted]
        return []

    def _next(self) -> list[Piece] | None:
        """Read up to the next mark. Return None if more text is needed."""
        if self._trims:
            self._skip(len(self.held) - len(self.held.lstrip()))
            self._trims = not self.held
        match self.state:
            case "start":
                return self._beginning()
            case "reasoning":
                return self._reasoning()
            case "text":
                return self._text()
            case "name":
                return self._name()
            case "arguments":
                return self._arguments()
            case "after":
                return self._after()
        self._skip(len(self.held))
        return None

    def _beginning(self) -> list[Piece] | None:
        """Look for reasoning, which is possible only at the beginning of an answer."""
        begin, text = self._reasoning_begins, self.held.lstrip()
        if text.startswith(begin):
            self._skip(len(self.held) - len(text) + len(begin))
            self.state, self._trims = "reasoning", True
            return []
        if text and not begin.startswith(text):
            self.state = "text"
            return []
        return None

    def _reasoning(self) -> list[Piece] | None:
        end = self._reasoning_ends
        before, marked = before_mark(self.held, end)
        count = len(before.rstrip())
        if not marked:
            return [self._cut(count, "reasoning")] if count else None
        piece = self._cut(count, "reasoning", last=True)
        self._skip(len(before) - count + len(end))
        self.state, self._trims = "text", True
        return [piece]

    def _text(self) -> list[Piece] | None:
        if not self._names:
            return [self._cut(len(self.held), "text")] if self.held else None
        before, marked = before_mark(self.held, self._marks.opening)
        pieces = [self._cut(len(before), "text")] if before else []
        if not marked:
            return pieces or None
        self._skip(len(self._marks.opening))
        self.state = "name"
        return pieces

    def _name(self) -> list[Piece] | None:
        name_text = next((text for text in self._names if self.held.startswith(text)), None)
        if name_text is None:
            return self._no_name()
        pieces = [] if self.calls else [end_of_text(self._start, self._marks.opening)]
        self.state, self._json = "arguments", JsonState()
        self.calls += 1
        head = CallChunk(self.calls - 1, f"call_{uuid4().hex[:24]}", self._names[name_text], "")
        self._doubted = (Piece("call", "", self._start, call=head),)
        self._call = self._skip(len(name_text))
        return pieces

    def _no_name(self) -> list[Piece] | None:
        """Treat the mark as text if no tool's name can follow it."""
        if self.calls or any(text.startswith(self.held) for text in self._names):
            return None
        opening = self._marks.opening
        self.held, self._start = opening + self.held, self._start - len(opening)
        self.state = "text"
        return [self._cut(1, "text")]

    def _arguments(self) -> list[Piece] | None:
        """Return the pieces of a call, unless it may still become equal to an earlier call."""
        end, self._json = object_end(self.held, self._json)
        start, text = self._start, self._skip(len(self.held) if end is None else end)
        self._call += text
        if text:
            chunk = CallChunk(self.calls - 1, None, None, text)
            self._doubted = (*self._doubted, Piece("call", "", start, call=chunk))
        if end is None and any(made.startswith(self._call) for made in self._made):
            return None
        certain, self._doubted = [*self._doubted], ()
        if end is None:
            return certain or None
        if self._call in self._made:
            self.state, self.repeated = "over", True
            self.calls -= 1
            return []
        self.state, self._made = "after", (*self._made, self._call)
        return certain

    def _after(self) -> list[Piece] | None:
        """Look for another call, or the closing mark, after a call."""
        joint, closing = self._marks.joint, self._marks.closing
        if joint is not None and self.held.startswith(joint):
            self._skip(len(joint))
            self.state = "name"
            return []
        if joint is not None and joint.startswith(self.held):
            return None  # more text is needed
        if closing and self.held.startswith(closing):
            self.state = "over"
            return []
        return None

    def _cut(self, count: int, kind: Literal["reasoning", "text"], last: bool = False) -> Piece:
        start = self._start
        return Piece(kind, self._skip(count), start, last)

    def _skip(self, count: int) -> str:
        """Remove the first `count` characters that are held, and return them."""
        text, self.held = self.held[:count], self.held[count:]
        self._start += count
        return text


def before_mark(text: str, mark: str) -> tuple[str, bool]:
    """Return the text before a mark, and True. Without a mark, return the certain text, and False.

    Text that may be the beginning of a mark is not certain. With the mark `<tool>`, `Hi <tool>{`
    gives (`Hi `, True), and `Hi <to` gives (`Hi `, False).
    """
    before, separator, _ = text.partition(mark)
    if separator:
        return before, True
    return before[: len(before) - beginning(mark, before)], False


def end_of_text(place: int, mark: str) -> Piece:
    """Return an empty last piece of text, where `mark` begins. `place` is where the mark ends."""
    return Piece("text", "", place - len(mark), last=True)


def arguments_as_text(pieces: Iterable[Piece], end: int, finished: bool) -> list[Piece]:
    """Return the arguments of calls as text, and no other text. `end` is the place after them."""
    texts = [
        piece if piece.call is None else Piece("text", piece.call.arguments, piece.start)
        for piece in pieces
        if piece.kind != "text"
    ]
    return [*texts, Piece("text", "", end, last=True)] if finished else texts


@dataclass(frozen=True, slots=True)
class JsonState:
    """The state of a JSON text: open brackets, inside a string, after a backslash."""

    depth: int = 0
    quoted: bool = False
    escaped: bool = False


def object_end(text: str, state: JsonState) -> tuple[int | None, JsonState]:
    """Return the index after the last brace of a JSON object, or None if the object goes on.

    `state` is the state before this piece of JSON. The state after it is returned too.
    """
    depth, quoted, escaped = state.depth, state.quoted, state.escaped
    for i, c in enumerate(text):
        if quoted:
            quoted = escaped or c != '"'
            escaped = c == "\\" and not escaped
        elif c == '"':
            quoted = True
        elif c in "{[":
            depth += 1
        elif c in "}]":
            depth -= 1
            if depth == 0:
                return i + 1, JsonState()
    return None, JsonState(depth, quoted, escaped)


def beginning(mark: str, text: str) -> int:
    """Return the number of trailing characters of `text` that are an incomplete mark."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
