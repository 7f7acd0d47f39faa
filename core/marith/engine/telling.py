"""Tokens as they become final → text → what is said, reasoning and calls → chunks."""

from __future__ import annotations

from collections.abc import Sequence

from marith.decoding.stopping import TextGate
from marith.engine.answer_reader import AnswerReader, Piece
from marith.engine.completion import CallChunk, Chunk, FinishReason, TokenLogprob
from marith.engine.request import Request
from marith.scoring.vocabulary import TextStream, Vocabulary


class Telling:
    """What has been told of a text, for one thread.

    `most` bounds its tokens; `opened` says that the prompt ends where reasoning has begun. Stop
    strings are looked for in what is said: they neither cut calls nor end reasoning.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary, most: int, opened: bool) -> None:
        markup, tools = vocabulary.markup, request.tools is not None
        names = [tool["name"] for tool in request.tools.callable] if request.tools else []
        marks = [*(markup.thinking or ())]
        if tools:
            marks += [markup.calls.opening, markup.calls.joint or "", markup.calls.closing]
        self.tokens: list[int] = []
        self.reasoning_tokens = 0
        self.gate = TextGate(request.stop.strings)
        self.reader = AnswerReader(markup, names, opened)
        self.said: list[str] = []
        self.reasoning: list[str] = []
        self.logprobs: list[TokenLogprob] | None = None if request.logprobs is None else []
        self._stream = TextStream(vocabulary, vocabulary.special_in("".join(marks)))
        self._ends, self._most = vocabulary.eos_ids, most
        self._talks = request.tools is None or request.tools.choice in ("auto", "none")
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
        if not self._talks:  # half a mark is no answer
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
