"""Tokens as they become final → text → what is said, reasoning and calls → chunks."""

from __future__ import annotations

from collections.abc import Sequence

from marith.answers.output_parser import AnswerReader, Piece
from marith.decoding.constraints.stop_strings import TextGate
from marith.request.completion import CallChunk, Chunk, FinishReason, TokenLogprob
from marith.request.request import Request
from marith.scoring.vocabulary import TextStream, Vocabulary


def begin(
    request: Request, vocabulary: Vocabulary, opened: bool
) -> tuple[TextStream, AnswerReader, TextGate]:
    """What a text goes through, from tokens to what is said; `opened` is as for `Telling`."""
    markup, tools = vocabulary.markup, request.tools
    marks = [*(markup.thinking or ())]
    if tools is not None:
        marks += [markup.calls.opening, markup.calls.joint or "", markup.calls.closing]
    names = [tool["name"] for tool in tools.callable] if tools else []
    stream = TextStream(vocabulary, vocabulary.special_in("".join(marks)))
    return stream, AnswerReader(markup, names, opened), TextGate(request.stop)


def talks(request: Request) -> bool:
    """Whether an answer may say something: half a mark of a call is no answer."""
    return request.tools is None or request.tools.choice in ("auto", "none")


class Telling:
    """What has been told of a text, for one thread.

    `most` bounds its tokens; `opened` says that the prompt ends where reasoning has begun. Stop
    strings are looked for in what is said: they neither cut calls nor end reasoning.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary, most: int, opened: bool) -> None:
        self.tokens: list[int] = []
        self.reasoning_tokens = 0
        self._stream, self.reader, self.gate = begin(request, vocabulary, opened)
        self.said: list[str] = []
        self.reasoning: list[str] = []
        self.logprobs: list[TokenLogprob] | None = None if request.logprobs is None else []
        self._ends, self._most = vocabulary.eos_ids, most
        self._talks = talks(request)
        self._untold: list[int] = []
        self._unheard: list[TokenLogprob] = []

    def take(self, token: int, logprob: TokenLogprob | None) -> Chunk | None:
        """One token more; a chunk, if something can be told now."""
        if token in self._ends:
            pieces = [*self.reader.feed(self._stream.flush()), *self.reader.flush()]
            return self._told(pieces, "tool_calls" if self.reader.calls else "stop")
        self.tokens.append(token)
        self._untold.append(token)
        if logprob is not None and self.logprobs is not None:
            self.logprobs.append(logprob)
            self._unheard.append(logprob)
        self.reasoning_tokens += self.reader.state == "reasoning"
        pieces = self.reader.feed(self._stream.feed(token))
        if len(self.tokens) < self._most:
            return self._told(pieces, None)
        pieces += [*self.reader.feed(self._stream.flush()), *self.reader.flush()]
        if not self._talks:
            pieces = [piece for piece in pieces if not piece.said]
        return self._told(pieces, "length")

    def _told(self, pieces: Sequence[Piece], reason: FinishReason | None) -> Chunk | None:
        """The pieces as a chunk; None where there is nothing to tell yet."""
        said = reasoning = ""
        calls: list[CallChunk] = []
        for piece in pieces:
            reasoning += piece.reasoning
            said += self.gate.feed(piece.said)
            if piece.call is not None:
                said += self.gate.flush()
                calls.append(piece.call)
        if self.gate.closed:
            reason = "stop"
        elif reason is not None:
            said += self.gate.flush()
        if not (said or reasoning or calls or reason):
            return None
        self.said.append(said)
        self.reasoning.append(reasoning)
        tokens, self._untold = tuple(self._untold), []
        heard, self._unheard = tuple(self._unheard), []
        return Chunk(said, tokens, reason, reasoning, tuple(calls), heard)
