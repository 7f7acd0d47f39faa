"""The part of an answer at each position: its reasoning, its text, or its tool calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from typing import Literal, NamedTuple, TypeAlias

from marith.scoring.lane_text import common
from marith.scoring.prompting.tokenizer import Detokenizer, Vocabulary

Part: TypeAlias = Literal["start", "reasoning", "text", "call"]
# A text that is rolled back by more tokens is read again from its beginning.
KEPT = 64


class Place(NamedTuple):
    """A position of a text: its part, and the last characters, which may begin a mark.

    `whole` is False if the last token ends inside a character.
    """

    part: Part
    held: str = ""
    whole: bool = True


class TextParts:
    """The parts of one text that grows, or is rolled back.

    The marks around reasoning and calls are those of the model's chat template. Reasoning is
    possible only at the beginning of an answer. After a call is opened, only calls follow. A mark
    counts from the position after its last character. If `opened`, the prompt has begun the
    reasoning.

    Keeps state, so that a token is read once. The state never changes an answer.
    """

    def __init__(self, vocabulary: Vocabulary, opened: bool) -> None:
        tool_format = vocabulary.tool_format
        self._begin, self._end = tool_format.thinking or ("", "")
        self._opening = tool_format.calls.opening
        marks = f"{self._begin}{self._end}{tool_format.calls.marks}"
        self._first = Place("start" if tool_format.thinking else "text")
        if opened:
            self._first = Place("reasoning")
        self._detokenizer = Detokenizer(vocabulary, vocabulary.special_in(marks))
        self._forget()

    def _forget(self) -> None:
        """Begin the text again."""
        self._continuation: Sequence[int] = ()
        self._tokens: list[int] = []
        # The place before each token, and after the last token.
        self._places = [self._first]
        # The detokenizers after the last tokens, the newest last.
        self._detokenizers = deque([self._detokenizer], maxlen=KEPT)

    def places(self, continuation: Sequence[int]) -> Sequence[Place]:
        """Return the place before each token of a text, and after it.

        A continuation that is the same object as the last one has only grown at its end. There may
        be more places, of an earlier text that went on.
        """
        if continuation is not self._continuation:
            self._cut(continuation)
            # Tokens that were read beyond this text are compared again when it grows.
            known = len(self._tokens) <= len(continuation)
            self._continuation = continuation if known else ()
        for token in continuation[len(self._tokens) :]:
            detokenizer = copy(self._detokenizers[-1])
            text = detokenizer.feed(token)
            self._detokenizers.append(detokenizer)
            self._tokens.append(token)
            self._places.append(self._after(self._places[-1], text, detokenizer))
        return self._places

    def _cut(self, continuation: Sequence[int]) -> None:
        """Drop the tokens from the first one on that differs from a text."""
        same = common(self._tokens, list(continuation))
        if same == len(continuation):
            return
        dropped = len(self._tokens) - same
        if dropped >= len(self._detokenizers):
            self._forget()
            return
        for _ in range(dropped):
            self._detokenizers.pop()
        del self._tokens[same:], self._places[same + 1 :]

    def _after(self, place: Place, text: str, detokenizer: Detokenizer) -> Place:
        """Return the place after more characters."""
        part, held = place.part, place.held + text
        while part != "call":
            if part == "start":
                held = held.lstrip()
                if not held.startswith(self._begin):
                    if self._begin.startswith(held):
                        break
                    part = "text"
                    continue
                part, held = "reasoning", held.removeprefix(self._begin)
            mark = self._end if part == "reasoning" else self._opening
            before, found, after = held.partition(mark)
            if not found:
                held = before[max(0, len(before) - len(mark) + 1) :]
                break
            part, held = ("text" if part == "reasoning" else "call"), after
        return Place(part, "" if part == "call" else held, detokenizer.begun == detokenizer.whole)
