"""An answer taken apart as its text arrives: reasoning, what is said, and calls of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from marith.decoding.constraints.stop_strings import beginning
from marith.request.completion import CallChunk, ToolCall
from marith.scoring.markup import CallMarkup, Markup, quoted

State = Literal["start", "reasoning", "said", "name", "arguments", "after", "over"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is said, or reasoning, or part of a call."""

    said: str = ""
    reasoning: str = ""
    call: CallChunk | None = None


class AnswerReader:
    """Takes an answer apart. What may yet turn out to be a mark is held back.

    `markup` says how the model marks calls and reasoning; `names` are the tools that may be
    called: a mark before anything else is text, as in JSON that begins as a call does. `opened`
    says that the prompt ends where reasoning has begun. White space around reasoning is no part
    of it, nor of what is said. Keeps state.
    """

    def __init__(self, markup: Markup, names: Sequence[str], opened: bool) -> None:
        self._markup: CallMarkup | None = markup.calls if names else None
        self._names = {quoted(name) + markup.calls.middle: name for name in names}
        self._thinking = markup.thinking
        self.state: State = "start" if markup.thinking else "said"
        if opened:
            self.state = "reasoning"
        self.calls: list[ToolCall] = []
        self._held = ""
        self._trims = opened
        self._json = JsonEnd()

    def feed(self, text: str) -> list[Piece]:
        """What the text so far is known to be."""
        self._held += text
        pieces: list[Piece] = []
        while (found := self._next()) is not None:
            pieces += found
        return pieces

    def flush(self) -> list[Piece]:
        """What is left when no more text comes: it was no mark after all."""
        rest, self._held = self._held, ""
        if not rest:
            return []
        match self.state:
            case "start" | "said":
                return [Piece(said=rest)]
            case "reasoning":
                return [Piece(reasoning=rest)]
            case "arguments":
                return [self._more(rest)]
        return []  # a name or a mark that was cut off says nothing

    def _next(self) -> list[Piece] | None:
        """Go on by one mark; None where more text is needed."""
        if self._trims:
            self._held = self._held.lstrip()
            self._trims = not self._held
        match self.state:
            case "start":
                return self._start()
            case "reasoning":
                assert self._thinking is not None
                return self._until(self._thinking[1], "said")
            case "said" if self._markup is not None:
                return self._until(self._markup.opening, "name")
            case "said":
                return self._all()
            case "name":
                return self._name()
            case "arguments":
                return self._arguments()
            case "after":
                return self._after()
        self._held = ""
        return None

    def _start(self) -> list[Piece] | None:
        """Reasoning stands in front of everything else, or nowhere."""
        assert self._thinking is not None
        begin, text = self._thinking[0], self._held.lstrip()
        if text.startswith(begin):
            self._held, self.state, self._trims = text[len(begin) :], "reasoning", True
            return []
        if text and not begin.startswith(text):
            self.state = "said"
            return []
        return None

    def _until(self, mark: str, then: State) -> list[Piece] | None:
        """Go on to a mark; what is said before it is of the state's own kind."""
        thinks = self.state == "reasoning"
        text, found, rest = self._held.partition(mark)
        if found:
            self._held, self.state, self._trims = rest, then, thinks
            text = text.rstrip() if thinks else text
            return [_piece(text, thinks)] if text else []
        out = self._held[: len(self._held) - beginning(mark, self._held)]
        out = out.rstrip() if thinks else out
        self._held = self._held[len(out) :]
        return [_piece(out, thinks)] if out else None

    def _all(self) -> list[Piece] | None:
        out, self._held = self._held, ""
        return [Piece(said=out)] if out else None

    def _name(self) -> list[Piece] | None:
        begun = next((text for text in self._names if self._held.startswith(text)), None)
        if begun is None:
            return self._no_call()
        self._held, self.state, self._json = self._held[len(begun) :], "arguments", JsonEnd()
        call = ToolCall(f"call_{uuid4().hex[:24]}", self._names[begun], "")
        self.calls.append(call)
        return [Piece(call=CallChunk(len(self.calls) - 1, call.id, call.name, ""))]

    def _no_call(self) -> list[Piece] | None:
        """No tool's name so far: it was no mark, unless one may yet come."""
        assert self._markup is not None
        if self.calls or any(text.startswith(self._held) for text in self._names):
            return None
        first, rest = self._markup.opening[0], self._markup.opening[1:]
        self._held, self.state = rest + self._held, "said"
        return [Piece(said=first)]

    def _arguments(self) -> list[Piece] | None:
        end = self._json.find(self._held)
        if end is not None:
            out, self._held, self.state = self._held[:end], self._held[end:], "after"
        else:
            out, self._held = self._held, ""
        return [self._more(out)] if out else None

    def _after(self) -> list[Piece] | None:
        """After a call there is another, or the end."""
        assert self._markup is not None
        joint, closing = self._markup.joint, self._markup.closing
        if joint is not None and self._held.startswith(joint):
            self._held, self.state = self._held[len(joint) :], "name"
            return []
        if joint is not None and joint.startswith(self._held):
            return None  # may yet be
        if closing and self._held.startswith(closing):
            self.state = "over"
            return []
        return None

    def _more(self, arguments: str) -> Piece:
        at = len(self.calls) - 1
        call = self.calls[at]
        self.calls[at] = ToolCall(call.id, call.name, call.arguments + arguments)
        return Piece(call=CallChunk(at, None, None, arguments))


class JsonEnd:
    """Finds where a JSON object that arrives in pieces ends."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False

    def find(self, text: str) -> int | None:
        """One past the object's last brace in this piece; None if it goes on."""
        for i, c in enumerate(text):
            if self._quoted:
                if self._escaped:
                    self._escaped = False
                elif c == "\\":
                    self._escaped = True
                elif c == '"':
                    self._quoted = False
            elif c == '"':
                self._quoted = True
            elif c in "{[":
                self._depth += 1
            elif c in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return i + 1
        return None


def _piece(text: str, thinks: bool) -> Piece:
    return Piece(reasoning=text) if thinks else Piece(said=text)
