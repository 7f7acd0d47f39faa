"""Build the grammar of a whole answer: reasoning, then text, a grammar's language, or calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias
from weakref import WeakValueDictionary

from marith.answers.reasoning_limit import ClosingMark, ReasoningLimit
from marith.decoding.matcher import Compiled, Lexicon
from marith.errors import RequestError
from marith.lru import WeightedLRU
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools
from marith.request.request import Request
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.prompting.tool_format import CallFormat, ToolFormat, json_text

# The pieces of a JSON text: strings, brackets, and the characters between them.
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|: |, |[^"{}\[\]:,]+|.', re.DOTALL)
ANYTHING = "(?s:.*)"
# Compiled grammars are kept up to this number of characters. Compiled, each character of a
# grammar's source takes 20 to 300 bytes.
KEPT = 500_000
# A shorter grammar counts as this number of characters.
LEAST = 1_000
# These characters are not escaped in a regular expression, and neither are letters and digits.
_PLAIN = " <>_\"',:;="

_Key: TypeAlias = "tuple[Tools | None, Grammar | None, bool, bool]"


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """Writes texts in Lark.

    `special` maps the text of each special token to the id by which Lark names the token.
    """

    special: Mapping[str, int]

    def pieces(self, text: str) -> list[str]:
        """Split a text into pieces of Lark, each a literal or the id of a special token.

        The pieces are not tokens, because some tokenizers lose a space when they decode a token.
        """
        return [_piece(part) for part in self._parts(text)]

    def __call__(self, text: str, name: str = "", after: str = "") -> str:
        """Return a text, a name and the text `after` the name as a sequence of Lark.

        In the texts, the names of special tokens stand for the tokens. In the name, they are
        letters.
        """
        return " ".join(map(_piece, self._parts(text, name, after)))

    def as_json(self, text: str, name: str = "", after: str = "") -> str:
        """Return the sequence that `__call__` returns, cut where a lexer cuts JSON.

        A lexer takes the longest piece that is allowed. The whole text as one piece, such as
        `{"name": "add"`, would exclude every other JSON text that begins with `{`.
        """
        parts = self._parts(text, name, after)
        cut = [_JSON.findall(part) if isinstance(part, str) else [part] for part in parts]
        return " ".join(_piece(piece) for pieces in cut for piece in pieces)

    def until(self, rule: str, mark: str, unlike: str = "") -> list[str]:
        """Return rules for `rule`: any text up to, and including, the first occurrence of a mark.

        `unlike` is added to the terminal, to exclude more texts.
        """
        first, *rest = self.pieces(mark)
        before = f"{rule.upper()}_BEFORE"
        if first.startswith("<["):
            terminal = f"{before}: {without(mark)}{unlike}"
            return [f"{rule}: {before} {first} {' '.join(rest)}", terminal]
        terminal = f"{before}: /{ANYTHING}{_escaped(json.loads(first))}/{unlike}"
        return [f"{rule}: {rule}_mark {' '.join(rest)}", f"{rule}_mark[lazy]: {before}", terminal]

    def _parts(self, text: str, name: str = "", after: str = "") -> list[str | int]:
        """Split a text, a name and the text `after` it into strings and ids of special tokens."""
        before, behind = self._split(text), self._split(after)
        # The first and the last part of a split text are always strings, so the name is joined with
        # the string before it and the string after it.
        joined = f"{before.pop()}{name}{behind.pop(0)}"
        return [part for part in (*before, joined, *behind) if part != ""]

    def _split(self, text: str) -> list[str | int]:
        longest_first = sorted(map(re.escape, self.special), key=len, reverse=True)
        parts = re.split(f"({'|'.join(longest_first)})", text) if self.special else [text]
        return [self.special.get(part, part) for part in parts]


def _piece(part: str | int) -> str:
    return json.dumps(part, ensure_ascii=False) if isinstance(part, str) else f"<[{part}]>"


class AnswerGrammars:
    """The compiled grammars of requests, for one vocabulary.

    A grammar stays compiled while a text follows it, or while it is recently used. The vocabulary
    is prepared when the first grammar is compiled.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._compiled: WeakValueDictionary[_Key, Compiled] = WeakValueDictionary()
        self._recent = WeightedLRU(KEPT)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The vocabulary's tokens as bytes."""
        vocabulary = self.vocabulary
        return Lexicon(vocabulary.literal, vocabulary.size, sorted(vocabulary.eos_ids))

    @cached_property
    def _spelling(self) -> Spelling:
        lexicon = self.lexicon
        added = self.vocabulary.raw.get_added_tokens_decoder()
        ids = {token.content: i for i, token in added.items() if i < lexicon.size}
        return Spelling({text: i for text, i in ids.items() if lexicon.is_special(i)})

    @cached_property
    def _closing_mark(self) -> ClosingMark | None:
        thinking = self.vocabulary.tool_format.thinking
        if thinking is None:
            return None
        return ClosingMark(thinking[1], self.lexicon, self.vocabulary)

    def reasoning_limit(self, most: int, opened: bool) -> list[ReasoningLimit]:
        """Return the limit of an answer's reasoning; none for a model that does not reason.

        If `opened`, the prompt has begun the reasoning.
        """
        if self._closing_mark is None:
            return []
        return [ReasoningLimit(most, self._closing_mark, self.vocabulary, opened)]

    def compiled(self, request: Request, opened: bool) -> Compiled | None:
        """Return the grammar of a request's answer, or None if any text is allowed.

        See `answer_source`. Raises RequestError for a grammar that cannot be followed. Two threads
        may compile the same grammar at the same time, which is harmless.
        """
        if request.grammar is None and request.tools is None:
            return None
        # Without an end token, a text could not end where its grammar ends.
        if not self.vocabulary.eos_ids:
            raise RequestError(
                "grammars and tools need a model with an end-of-text token, and this model has none"
            )
        # Where reasoning is turned off, the grammar must not let it begin.
        reasons = opened or request.stop.max_reasoning_tokens != 0
        key = request.tools, request.grammar, opened, reasons
        grammar = self._compiled.get(key)
        if grammar is None:
            tool_format = self.vocabulary.tool_format
            if not reasons:
                tool_format = replace(tool_format, thinking=None)
            source = answer_source(
                request.tools, request.grammar, tool_format, opened, self._spelling
            )
            grammar = self._compiled[key] = Compiled(source, self.lexicon)
        self._recent.use(grammar, max(LEAST, grammar.letters))
        return grammar


def answer_source(
    tools: Tools | None,
    grammar: Grammar | None,
    tool_format: ToolFormat,
    opened: bool,
    spell: Spelling,
) -> str:
    """Return the grammar of the whole answer to a request with tools, a grammar or both.

    Any text is allowed as reasoning before the answer. If `opened`, the prompt has begun the
    reasoning. If tools may be called, the answer is either calls or what `grammar` allows (any text
    without a grammar).
    """
    rules: list[str] = []
    calls = tools is not None and bool(tools.callable)
    if tools is not None and calls:
        rules += _calls(tools, tool_format.calls, spell)
    if tools is not None and calls and tools.choice != "auto":
        answer = "calls"
    elif grammar is not None:
        answer = "@answer | calls" if calls else "@answer"
    else:
        answer = "PROSE | text_calls" if calls else "PROSE"
        rules += _prose(tool_format, opened, spell, calls)
    thought = ""
    if tool_format.thinking is not None:
        begin, end = tool_format.thinking
        rules += spell.until("thinking", end)
        rules.append(f"thought: {'' if opened else spell(begin)} thinking /\\s{{0,4}}/")
        thought = "thought" if opened else "thought?"
    top = "\n".join([f"%llguidance {{}}\nstart: {thought} ({answer})", *rules])
    others = [grammar.part("answer")] if grammar is not None and "@answer" in answer else []
    return json.dumps({"grammars": [{"lark_grammar": top}, *others]}, ensure_ascii=False)


def _prose(tool_format: ToolFormat, opened: bool, spell: Spelling, calls: bool) -> list[str]:
    """Return the rule `PROSE`, and `text_calls` for text before calls if calls are allowed.

    Neither allows a text that begins with the mark of reasoning. If no call is allowed, the text is
    not empty, and does not contain the tag that opens calls, such as `<tool_call>`: a model that
    has read calls may write them in a spelling of its own.
    """
    unlike = ""
    if tool_format.thinking is not None and not opened:
        unlike = f" & ~/\\s*{_escaped(tool_format.thinking[0])}{ANYTHING}/"
    mark = tool_format.calls.opening
    if not calls:
        tag = mark.partition("{")[0].rstrip(" \n[")
        return [f"PROSE: /(?s:.+)/ & {without(tag or mark)}{unlike}"]
    before_calls = [*spell.until("text", mark, unlike), "text_calls: text called"]
    return [f"PROSE: {without(mark)}{unlike}", *before_calls]


def _calls(tools: Tools, tool_format: CallFormat, spell: Spelling) -> list[str]:
    """Return the rule `calls`, and `called` for the text after the mark that opens calls."""
    numbers = range(len(tools.callable))
    first, next_ = (" | ".join(f"{rule}_{i}" for i in numbers) for rule in ("first", "next"))
    several = tools.parallel and not tools.named and tool_format.joint is not None
    more = f"({spell(tool_format.joint or '')} ({next_}))*" if several else ""
    after = f"{more} {spell(tool_format.closing)}"
    rules = [f"calls: ({first}) {after}", f"called: ({next_}) {after}"]
    for i, tool in enumerate(tools.callable):
        name = json_text(tool["name"]), tool_format.middle
        rules.append(f"first_{i}: {spell.as_json(tool_format.opening, *name)} arguments_{i}")
        rules.append(f"next_{i}: {spell('', *name)} arguments_{i}")
        rules.append(f"arguments_{i}: %json {tools.schema_of(tool)}")
    return rules


def without(mark: str) -> str:
    """Return a terminal for any text that does not contain the mark."""
    return f"/{ANYTHING}/ & ~/{ANYTHING}{_escaped(mark)}{ANYTHING}/"


def _escaped(text: str) -> str:
    """Return a regular expression that matches only this text."""
    plain = (c if c.isalnum() or c in _PLAIN else f"\\{c}" for c in text)
    return "".join(plain).replace("\\\n", "\\n")
