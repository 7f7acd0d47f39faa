"""A text read ahead of what is told of it: where a banned word began, and what may become one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from copy import copy

from marith.answers.output import begin, talks
from marith.answers.output_parser import Piece
from marith.decoding.constraints.banned_words import Finder
from marith.request.request import Request
from marith.scoring.vocabulary import Vocabulary

HALF = "\ufffd"  # stands for a character that is not complete
CALLING = ("arguments", "after", "over")  # where a reader is that has met a call


class Watch:
    """Reads the tokens of a text and follows each letter back to its token. For one thread.

    What counts is what is said, stop strings taken out, and reasoning, each as a text of its own;
    calls are not looked at. Letters wait where what is told waits: for the rest of a character, of
    a mark, of a stop string. For `most` and `opened` see `Telling`.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary, most: int, opened: bool) -> None:
        assert request.ban is not None
        self._request, self._ban = request, request.ban
        self._vocabulary, self._opened = vocabulary, opened
        self._ends, self._most = vocabulary.eos_ids, most
        self._begin()

    def _begin(self) -> None:
        self.tokens: list[int] = []
        self.over = False
        self._stream, self._reader, self._gate = begin(
            self._request, self._vocabulary, self._opened
        )
        self._said, self._thought = Finder(self._ban), Finder(self._ban)
        self._halves: list[int] = []  # a place for each letter that the stream has begun
        self._unread: deque[tuple[str, int]] = deque()  # letters that the reader holds
        self._gated: deque[int] = deque()  # those that the gate holds
        self._found: int | None = None

    @property
    def clear(self) -> bool:
        """Whether no banned word that comes later can have begun by now."""
        waiting = self._halves or self._unread or self._gated
        return not (waiting or self._said.suspects or self._thought.suspects)

    def take(self, token: int) -> int | None:
        """One token more; the place of the token that began a banned word that is now complete."""
        if token not in self._ends:
            self.tokens.append(token)
            if text := self._stream.feed(token):
                self._read(text)
            else:
                self._wait()
        if token in self._ends or len(self.tokens) >= self._most:
            self._read(self._stream.flush())
            rest = self._reader.flush()
            if token in self._ends or talks(self._request):
                self._hear(rest)
            self._end()
        return self._found

    def rewind(self, place: int) -> None:
        """Begin again, and read as far as the token before a place."""
        kept = self.tokens[:place]
        self._begin()
        for token in kept:
            self.take(token)

    def _wait(self) -> None:
        """Note which letters the last token has begun, none of them whole as yet."""
        half = copy(self._stream).flush()  # the stream itself goes on
        begun = len(half.rstrip(HALF)) + half.endswith(HALF)
        self._halves += [len(self.tokens) - 1] * (begun - len(self._halves))

    def _read(self, text: str) -> None:
        """Letters that are whole, each at the place of the token that began it."""
        places = self._halves + [len(self.tokens) - 1] * len(text)
        self._halves = []
        for letter, place in zip(text, places, strict=False):
            before = self._reader.state
            self._unread.append((letter, place))
            self._hear(self._reader.feed(letter))
            after = self._reader.state
            marked = before != after and "reasoning" in (before, after)
            if marked or after in CALLING:
                self._unread.clear()  # what is left is a mark, or part of a call
            if marked:
                self._note(self._thought.end())

    def _hear(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            for letter in piece.reasoning:
                self._note(self._thought.feed(letter, self._place_of(letter)))
            for letter in piece.said:
                self._gated.append(self._place_of(letter))
                self._say(self._gate.feed(letter))
            if piece.call is not None:
                self._say(self._gate.flush())
                self._note(self._said.end())
        if self._gate.closed:
            self._end()

    def _place_of(self, letter: str) -> int:
        """Where a letter came from that the reader lets out; white space before it may be gone."""
        while True:
            known, place = self._unread.popleft()
            if known == letter:
                return place

    def _say(self, text: str) -> None:
        for letter in text:
            self._note(self._said.feed(letter, self._gated.popleft()))

    def _end(self) -> None:
        self._say(self._gate.flush())
        self._note(self._said.end())
        self._note(self._thought.end())
        self.over = True

    def _note(self, found: int | None) -> None:
        if self._found is None:
            self._found = found
