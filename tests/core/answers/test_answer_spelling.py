"""How the marks of a call are spelt in a grammar, special tokens and lost spaces included."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import FAMILIES, read_back, speaker, tool
from support.schema_walks import accepts
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from marith.answers.answer_grammar import AnswerGrammars, Spelling, without
from marith.decoding.matcher import Matcher
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools
from marith.request.request import Request
from marith.scoring.prompting.tokenizer import Vocabulary

END = 1


def test_marks_that_are_special_tokens_are_written_as_token_ids() -> None:
    spell = Spelling({"<a>": 7, "<ab>": 8, "<a><ab>": 9})
    assert spell('x <a>\n"é<ab>') == '"x " <[7]> "\\n\\"é" <[8]>'
    assert spell.pieces("<a><ab>") == ["<[9]>"]
    assert spell.pieces("") == []
    assert Spelling({}).pieces("<a>") == ['"<a>"']


@given(mark=st.text("a<[|.*(", min_size=1, max_size=3), text=st.text("a<[|.*(", max_size=6))
def test_the_pattern_of_text_without_a_mark_matches_all_other_texts(mark: str, text: str) -> None:
    grammar = Grammar.lark(f"start: PROSE\nPROSE: {without(mark)}")
    assert accepts(grammar.source, text) == (mark not in text)


@given(text=st.text(max_size=12) | st.text('{}[]":, \\a<c>', max_size=12))
def test_a_text_in_json_is_the_same_text_around_special_tokens(text: str) -> None:
    spell = Spelling({"<c>": 3})
    for said in (spell(text), spell.as_json(text)):
        pieces = said.replace("<[3]>", json.dumps("<c>"))
        decoder, whole = json.JSONDecoder(), ""
        while pieces:
            piece, end = decoder.raw_decode(pieces)
            whole, pieces = whole + piece, pieces[end:].lstrip(" ")
        assert whole == text


@cache
def sentencepiece() -> Vocabulary:
    """Its decoder strips a first space, as that of a mark's letters behind a special token."""
    letters = dict.fromkeys([*FAMILIES["mistral"].special, *(f"<0x{i:02X}>" for i in range(256))])
    ids = {text: i for i, text in enumerate(["<s>", "</s>", *letters, "▁", "▁["])}
    bpe = models.BPE(vocab=ids | {"[": len(ids)}, merges=[("▁", "[")], byte_fallback=True)
    raw = Tokenizer(bpe)
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    raw.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    raw.add_special_tokens(
        [AddedToken(t, special=True) for t in ("<s>", "</s>", *FAMILIES["mistral"].special)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = speaker("mistral").tokenizer.chat_template
    return Vocabulary(tokenizer, 10**6)


TOOLS = (tool("look", at="string"), tool("größe-1"))
CALLS = [("look", '{"at": "a \\"}\\" é"}'), ("größe-1", "{}")]


def test_a_space_after_a_special_token_is_allowed_and_read() -> None:
    known, request = sentencepiece(), Request("u", tools=Tools(TOOLS, "required"))
    tokens = [*known.encode(known.tool_format.calls.write(CALLS), literal=False), END]
    grammar = AnswerGrammars(known).compiled(request, opened=False)
    assert grammar is not None
    rows = Matcher(grammar).allowed(tokens, range(len(tokens)))
    assert all(bool(row[token]) for row, token in zip(rows, tokens, strict=True))
    out = read_back(request, known, tokens)
    assert [(call.name, call.parsed) for call in out.calls] == [
        ("look", {"at": 'a "}" é'}),
        ("größe-1", {}),
    ]
