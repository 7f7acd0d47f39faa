"""An answer taken apart as its text arrives: reasoning, the text proper, and calls of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from uuid import uuid4

from marith.request.completion import CallChunk
from marith.scoring.prompting.tool_format import CallFormat, ToolFormat, json_text

State: TypeAlias = Literal["start", "reasoning", "text", "name", "arguments", "after", "over"]


class Piece(NamedTuple):
    """Characters of an answer, of one kind; the first is number `start` of all that were read.

    `last` says that no more of this kind follows. Of a call there is its chunk.
    """

    kind: Literal["reasoning", "text", "call"]
    text: str
    start: int
    last: bool = False
    call: CallChunk | None = None


class OutputParser:
    """Takes an answer apart. What may yet turn out to be a mark is held back.

    `tool_format` says how the model marks calls and reasoning; `names` are the tools that may be
    called: a mark before anything else is text, as in JSON that begins as a call does. `opened`
    says that the prompt ends where reasoning has begun; without `writes` an answer is calls alone.
    White space around reasoning is part neither of it nor of the text. `calls` counts the calls so
    far. Keeps state; can be copied.
    """

    def __init__(
        self, tool_format: ToolFormat, names: Sequence[str], opened: bool, writes: bool = True
    ) -> None:
        self._markup: CallFormat | None = tool_format.calls if names else None
        self._opening = tool_format.calls.opening if names else ""
        self._names = {json_text(name) + tool_format.calls.middle: name for name in names}
        self._thinking = tool_format.thinking
        self._writes = writes
        self.state: State = "start" if tool_format.thinking else "text"
        if opened:
            self.state = "reasoning"
        self.calls = 0
        self._held = ""
        self._at = 0  # which character of all is the first that is held
        self._trims = opened
        self._json = JsonState()

    @property
    def pending(self) -> bool:
        """Whether there are characters that may yet be text or reasoning, marks among them."""
        if self.state == "name":  # the mark before it is text if no name follows
            return not self.calls
        return bool(self._held) and self.state in ("start", "reasoning", "text")

    def read(self, pieces: Iterable[Piece]) -> list[Piece]:
        """What the text of these pieces is, as far as it is certain; after the last one, all."""
        parsed: list[Piece] = []
        for piece in pieces:
            parsed += self.feed(piece.text)
            if piece.last:
                parsed += self.flush()
        return parsed

    def feed(self, text: str) -> list[Piece]:
        """What is certain about the text so far."""
        self._held += text
        parsed: list[Piece] = []
        while (pieces := self._next()) is not None:
            parsed += pieces
        return parsed

    def flush(self) -> list[Piece]:
        """What is left when no more text comes: it was no mark after all."""
        match self.state:
            case "reasoning":
                return [self._cut(len(self._held), "reasoning", last=True)]
            case "start" | "text" if self._writes:
                return [self._cut(len(self._held), "text", last=True)]
            case "start" | "text" if not self.calls:  # half a mark of a call is no text
                return [end_of_text(self._at, "")]
            case "name" if not self.calls:
                return [end_of_text(self._at, self._opening)]
        return []

    def _next(self) -> list[Piece] | None:
        """Go on by one mark; None where more text is needed."""
        if self._trims:
            self._skip(len(self._held) - len(self._held.lstrip()))
            self._trims = not self._held
        match self.state:
            case "start":
                return self._start()
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
        self._skip(len(self._held))
        return None

    def _start(self) -> list[Piece] | None:
        """Reasoning stands in front of everything else, or nowhere."""
        assert self._thinking is not None
        begin, text = self._thinking[0], self._held.lstrip()
        if text.startswith(begin):
            self._skip(len(self._held) - len(text) + len(begin))
            self.state, self._trims = "reasoning", True
            return []
        if text and not begin.startswith(text):
            self.state = "text"
            return []
        return None

    def _reasoning(self) -> list[Piece] | None:
        assert self._thinking is not None
        end = self._thinking[1]
        before, marked = before_mark(self._held, end)
        count = len(before.rstrip())
        if not marked:
            return [self._cut(count, "reasoning")] if count else None
        piece = self._cut(count, "reasoning", last=True)
        self._skip(len(before) - count + len(end))
        self.state, self._trims = "text", True
        return [piece]

    def _text(self) -> list[Piece] | None:
        if self._markup is None:
            return [self._cut(len(self._held), "text")] if self._held else None
        before, marked = before_mark(self._held, self._markup.opening)
        pieces = [self._cut(len(before), "text")] if before else []
        if not marked:
            return pieces or None
        self._skip(len(self._markup.opening))
        self.state = "name"
        return pieces

    def _name(self) -> list[Piece] | None:
        begun = next((text for text in self._names if self._held.startswith(text)), None)
        if begun is None:
            return self._no_call()
        pieces = [] if self.calls else [end_of_text(self._at, self._opening)]
        self.state, self._json = "arguments", JsonState()
        self.calls += 1
        head = CallChunk(self.calls - 1, f"call_{uuid4().hex[:24]}", self._names[begun], "")
        pieces.append(Piece("call", "", self._at, call=head))
        self._skip(len(begun))
        return pieces

    def _no_call(self) -> list[Piece] | None:
        """No tool's name so far: it was no mark, unless a name may yet come."""
        assert self._markup is not None
        if self.calls or any(text.startswith(self._held) for text in self._names):
            return None
        opening = self._markup.opening
        self._held, self._at, self.state = opening + self._held, self._at - len(opening), "text"
        return [self._cut(1, "text")]

    def _arguments(self) -> list[Piece] | None:
        end, self._json = object_end(self._held, self._json)
        if end is not None:
            self.state = "after"
        elif not self._held:
            return None
        start, text = self._at, self._skip(len(self._held) if end is None else end)
        return [Piece("call", "", start, call=CallChunk(self.calls - 1, None, None, text))]

    def _after(self) -> list[Piece] | None:
        """After a call there is another, or the end."""
        assert self._markup is not None
        joint, closing = self._markup.joint, self._markup.closing
        if joint is not None and self._held.startswith(joint):
            self._skip(len(joint))
            self.state = "name"
            return []
        if joint is not None and joint.startswith(self._held):
            return None  # may yet be
        if closing and self._held.startswith(closing):
            self.state = "over"
            return []
        return None

    def _cut(self, count: int, kind: Literal["reasoning", "text"], last: bool = False) -> Piece:
        start = self._at
        return Piece(kind, self._skip(count), start, last)

    def _skip(self, count: int) -> str:
        """Go past so many of the characters that are held; they are returned."""
        text, self._held = self._held[:count], self._held[count:]
        self._at += count
        return text


def before_mark(text: str, mark: str) -> tuple[str, bool]:
    """The text before a mark, and whether the mark is there; or what cannot begin one."""
    before, found, _ = text.partition(mark)
    return (before if found else before[: len(before) - beginning(mark, before)]), bool(found)


def end_of_text(at: int, mark: str) -> Piece:
    """No more text: it has ended where a mark begins, after which the character `at` stands."""
    return Piece("text", "", at - len(mark), last=True)


@dataclass(frozen=True, slots=True)
class JsonState:
    """How deep in brackets a JSON text is, and whether in a string or after a backslash there."""

    depth: int = 0
    quoted: bool = False
    escaped: bool = False


def object_end(text: str, state: JsonState) -> tuple[int | None, JsonState]:
    """One past the last brace of a JSON object in this piece of it, None if the object goes on.

    `state` is the state before the piece; the one after it is returned too.
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
    """How many of the last characters of `text` begin the mark, which does not occur in it."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
