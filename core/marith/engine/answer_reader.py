"""An answer taken apart as its text arrives: reasoning, what is said, and calls of tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from marith.engine.completion import CallChunk, ToolCall
from marith.scoring.markup import CallMarkup, Markup

State = Literal["start", "reasoning", "said", "name", "arguments", "after", "over"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is said, or reasoning, or part of a call."""

    said: str = ""
    reasoning: str = ""
    call: CallChunk | None = None


class AnswerReader:
    """Takes an answer apart. What may yet turn out to be a mark is held back.

    `markup` says how the model marks calls and reasoning; calls are looked for only if there are
    tools. `opened` says that the prompt ends where reasoning has begun. Keeps state.
    """

    def __init__(self, markup: Markup, tools: bool, opened: bool) -> None:
        self._markup: CallMarkup | None = markup.calls if tools else None
        self._thinking = markup.thinking
        self.state: State = "start" if markup.thinking else "said"
        if opened:
            self.state = "reasoning"
        self.calls: list[ToolCall] = []
        self._held = ""
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
            self._held, self.state = text[len(begin) :], "reasoning"
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
            self._held, self.state = rest, then
            if thinks:
                self._held, text = rest.lstrip(), text.rstrip()
            return [_piece(text, thinks)] if text else []
        keep = beginning(mark, self._held)
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return [_piece(out, thinks)] if out else None

    def _all(self) -> list[Piece] | None:
        out, self._held = self._held, ""
        return [Piece(said=out)] if out else None

    def _name(self) -> list[Piece] | None:
        assert self._markup is not None
        name, found, rest = self._held.partition(self._markup.middle)
        if not found:
            return None
        self._held, self.state, self._json = rest, "arguments", JsonEnd()
        call = ToolCall(f"call_{uuid4().hex[:24]}", json.loads(f'"{name}"'), "")
        self.calls.append(call)
        return [Piece(call=CallChunk(len(self.calls) - 1, call.id, call.name, ""))]

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


def beginning(mark: str, text: str) -> int:
    """How many of the last letters of `text` begin the mark."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
