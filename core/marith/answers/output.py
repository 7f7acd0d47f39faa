"""Convert final tokens to text, reasoning and calls, to chunks, and to the completion."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby

from marith.answers.detectors import BanDetector, StopStringFilter, ends_of, marks_of
from marith.answers.output_parser import OutputParser, Piece, arguments_as_text
from marith.errors import RequestError
from marith.request.completion import (
    CallChunk,
    Chunk,
    Completion,
    FinishReason,
    Stats,
    TokenLogprob,
    ToolCall,
    Usage,
)
from marith.request.request import Request
from marith.scoring.prompting.tokenizer import Detokenizer, Vocabulary


class Output:
    """Takes final tokens in order, and returns chunks. Its state is small, and can be copied.

    The detokenizer turns tokens into text. A request may need three more readers: a parser, if the
    model reasons or may call tools; a filter of stop strings; and a detector of banned words. The
    filter searches only the text, so that a stop string neither cuts JSON nor ends reasoning.
    Characters are numbered in the order in which the detokenizer returns them. `max_tokens` limits
    the number of tokens. If `opened`, the prompt has begun the reasoning.
    """

    def __init__(
        self, request: Request, vocabulary: Vocabulary, max_tokens: int, opened: bool
    ) -> None:
        self.count = self.reasoning_tokens = 0
        self.finish_reason: FinishReason | None = None
        # Text of the prefix that a reader holds back, and that the caller already has.
        self._given = ""
        self._ends, self._max_tokens = ends_of(request, vocabulary), max_tokens
        own = request.stop.ends(vocabulary.eos_ids)
        # The special tokens that end the text because a stop string names them.
        self._names = {
            token: text
            for text in request.stop.strings
            for token in vocabulary.special_named((text,)) - own
        }
        self._name: str | None = None
        self._tokens: tuple[int, ...] = ()  # since the last chunk
        self._logprobs: tuple[TokenLogprob, ...] = ()
        tool_format, tools = vocabulary.tool_format, request.tools
        self._detokenizer = Detokenizer(vocabulary, marks_of(request, vocabulary))
        names = [tool["name"] for tool in tools.callable] if tools is not None else []
        has_text = tools is None or tools.choice in ("auto", "none")
        parses = bool(names) or tool_format.thinking is not None
        self._parser = OutputParser(tool_format, names, opened, has_text) if parses else None
        self._as_text = tools is not None and tools.as_text
        searched = request.stop.strings and not request.answers_in_json
        self._filter = StopStringFilter(request.stop) if searched else None
        self._least = request.stop.min_tokens
        self._detector = BanDetector(request.ban) if request.ban is not None else None
        self._plain = not (self._parser or self._filter or self._detector)

    @property
    def begun(self) -> int:
        """The number of characters in the tokens so far, including an incomplete character."""
        return self._detokenizer.begun

    @property
    def pending(self) -> bool:
        """True if the last tokens may be the beginning of a banned word."""
        incomplete = self._detokenizer.begun > self._detokenizer.written
        readers = (self._parser, self._filter, self._detector)
        return incomplete or any(reader is not None and reader.pending for reader in readers)

    @property
    def banned(self) -> int | None:
        """The number of the first character of a banned word, or None."""
        return None if self._detector is None else self._detector.found

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the text, or None."""
        return self._name if self._filter is None else self._filter.found or self._name

    def ends_with(self, token: int) -> bool:
        """Return True if the next token ends the text, whatever the text is."""
        return token in self._ends or self.count + 1 >= self._max_tokens

    def take(self, token: int, logprob: TokenLogprob | None = None) -> Chunk | None:
        """Take a final token, and return its chunk, or None if nothing can be emitted yet."""
        if token in self._ends:
            self.finish_reason, self._name = "stop", self._names.get(token)
            text = self._detokenizer.flush()
        else:
            self.count += 1
            self._tokens = (*self._tokens, token)
            if logprob is not None:
                logprob = replace(logprob, offset=self._detokenizer.place(logprob.data))
                self._logprobs = (*self._logprobs, logprob)
            if self._parser is not None and self._parser.state == "reasoning":
                self.reasoning_tokens += 1
            text = self._detokenizer.feed(token)
            if self.count >= self._max_tokens:
                self.finish_reason = "length"
                text += self._detokenizer.flush()
        if self._filter is not None and self.count <= self._least:
            # A stop string within the first `min_tokens` tokens does not end the text.
            self._filter.exempt = self._detokenizer.written
        reasoning: str = ""
        calls: tuple[CallChunk, ...] = ()
        if not self._plain:
            text, reasoning, calls = self._parsed(text)
        if self._given and text:
            text = self._beyond_given(text)
        if not (text or reasoning or calls or self.finish_reason):
            return None
        tokens, self._tokens = self._tokens, ()
        logprobs, self._logprobs = self._logprobs, ()
        return Chunk(text, tokens, self.finish_reason, reasoning, calls, logprobs)

    def replay(self, tokens: Sequence[int]) -> None:
        """Take the tokens of a prefix. The caller has them already, so nothing is returned.

        Raises RequestError for a prefix after which the answer cannot continue.
        """
        self._least += len(tokens) if self._least else 0
        for token in tokens:
            self.take(token)
            if self.finish_reason is not None:
                raise RequestError("the prefix is a whole answer: it already ends the text")
        if self.banned is not None:
            raise RequestError("the prefix has a banned word")
        if self._filter is not None:
            self._given = self._filter.held
        if self._parser is not None and self._parser.state == "text":
            self._given += self._parser.held
        self._tokens, self.reasoning_tokens = (), 0

    def _beyond_given(self, text: str) -> str:
        """Return the text without characters of the prefix that were held back until now."""
        count = len(self._given)
        self._given = self._given[len(text) :]
        return text[count:]

    def copy(self) -> Output:
        """Return an output that has taken the same tokens."""
        other = copy(self)
        other._detokenizer = copy(self._detokenizer)
        other._parser = copy(self._parser)
        other._filter = copy(self._filter)
        other._detector = copy(self._detector)
        return other

    def _parsed(self, text: str) -> tuple[str, str, tuple[CallChunk, ...]]:
        """Split the characters that a token adds into text, reasoning and calls; return the three.

        A stop string in the text ends the answer.
        """
        start = self._detokenizer.written - len(text)
        pieces = [Piece("text", text, start, last=self.finish_reason is not None)]
        if self._parser is not None:
            pieces = self._parser.read(pieces, cut=self.finish_reason == "length")
        if self._as_text:
            pieces = arguments_as_text(pieces, start + len(text), self.finish_reason is not None)
        for reader in (self._filter, self._detector):
            if reader is not None:
                pieces = reader.read(pieces)
        # A model that has repeated a call would go on repeating it.
        if self._parser is not None and self._parser.repeated:
            self.finish_reason = "tool_calls"
        elif self.stop_string is not None:
            self.finish_reason = "stop"
        elif self.finish_reason == "stop" and self._parser is not None and self._parser.calls:
            self.finish_reason = "stop" if self._as_text else "tool_calls"
        texts = [piece.text for piece in pieces if piece.kind == "text"]
        reasoning = [piece.text for piece in pieces if piece.kind == "reasoning"]
        calls = [piece.call for piece in pieces if piece.call is not None]
        return "".join(texts), "".join(reasoning), tuple(calls)


def completion(
    request: Request,
    chunks: Sequence[Chunk],
    usage: Usage,
    stats: Stats,
    stop_string: str | None,
    warnings: tuple[str, ...] = (),
) -> Completion:
    """Return the completion of these chunks. The last chunk has the finish reason."""
    reason = chunks[-1].finish_reason
    assert reason is not None
    logprobs = tuple(logprob for chunk in chunks for logprob in chunk.logprobs)
    calls = joined([call for chunk in chunks for call in chunk.calls])
    if reason == "length" and calls and not calls[-1].is_whole:
        warnings += (f"the call of {calls[-1].name!r} was cut off: its arguments are not whole",)
    return Completion(
        "".join(chunk.text for chunk in chunks),
        [token for chunk in chunks for token in chunk.tokens],
        reason,
        usage,
        stats,
        "".join(chunk.reasoning for chunk in chunks),
        calls,
        None if request.logprobs is None else logprobs,
        stop_string,
        warnings=warnings,
        formula=str(request.formula),
    )


def joined(chunks: Sequence[CallChunk]) -> tuple[ToolCall, ...]:
    """Return the calls that consist of these chunks."""
    calls: list[ToolCall] = []
    for _, chunks_of_call in groupby(chunks, key=lambda chunk: chunk.index):
        head, *rest = chunks_of_call
        assert head.id is not None
        assert head.name is not None
        arguments = "".join(chunk.arguments for chunk in [head, *rest])
        calls.append(ToolCall(head.id, head.name, arguments))
    return tuple(calls)
