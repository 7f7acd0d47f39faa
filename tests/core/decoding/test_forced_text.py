"""A text that a grammar forces is written as letters, whatever special tokens it names."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Container
from functools import cache

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from support.chat_families import FAMILIES, answers, read_back, speaker, tool
from support.vocabularies import llama_like
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from marith import Engine
from marith.answers.answer_grammar import AnswerGrammars
from marith.decoding.matcher import Compiled, Matcher
from marith.request.forms.grammar import Grammar
from marith.request.forms.schema_formats import escaped
from marith.request.forms.tools import Tools
from marith.request.request import Request
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.loader import locate

LETTERS = 'ab<|>[]/ é"\\'


def pocket() -> Vocabulary:
    return Vocabulary(AutoTokenizer.from_pretrained(locate("pocket")), 10**6)


def composing() -> Vocabulary:
    """A vocabulary whose tokenizer joins a letter and its accent, as Qwen's does."""
    raw = Tokenizer.from_str(speaker("hermes special").raw.to_str())
    raw.normalizer = normalizers.NFC()
    return Vocabulary(PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>"), 10**6)


def words() -> Vocabulary:
    """Whole words, of which llguidance does not read the definition."""
    special = ["<end>", "<a b>"]
    texts = [*special, "[UNK]", *LETTERS, *"{}:,kn1de", "ab"]
    raw = Tokenizer(
        models.WordLevel({text: i for i, text in enumerate(dict.fromkeys(texts))}, "[UNK]")
    )
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    raw.decoder = decoders.Fuse()
    raw.add_special_tokens([AddedToken(text, special=True) for text in special])
    return Vocabulary(PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>"), 10**6)


KINDS: dict[str, Callable[[], Vocabulary]] = {
    "bytes": lambda: speaker("phi"),
    "bytes composing": composing,
    "pocket": pocket,
    "sentencepiece": llama_like,
    "words": words,
}


@cache
def known(kind: str) -> AnswerGrammars:
    return AnswerGrammars(KINDS[kind]())


FORMS: dict[str, Callable[[str], Grammar]] = {
    "const": lambda text: Grammar.json_schema({"const": text}),
    "enum": lambda text: Grammar.json_schema({"enum": [text, f"{text}a"]}),
    "name": lambda text: Grammar.json_schema(
        {"type": "object", "properties": {text: {"const": 1}}, "required": [text]}
    ),
    "choice": lambda text: Grammar.choice([text, f"{text}b"]),
    "regex": lambda text: Grammar.regex("".join(map(escaped, text))),
    "lark": lambda text: Grammar.lark(f"start: {json.dumps(text, ensure_ascii=False)}"),
}
Draw = random.Random


def drawn(grammar: Compiled, ends: Container[int], draw: Draw) -> list[int]:
    """The tokens of an answer, each drawn from those that a grammar allows."""
    matcher, tokens = Matcher(grammar), [-1]
    while tokens[-1] not in ends:
        if len(tokens) >= 500:  # a model may call again and again
            reject()
        row = matcher.allowed(tokens[1:], [len(tokens) - 1])[0]
        tokens.append(draw.choice(row.nonzero().flatten().tolist()))
    return tokens[1:]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), draw=st.randoms(use_true_random=False))
def test_a_form_is_written_whole_though_its_text_names_special_tokens(
    kind: str, data: st.DataObject, draw: Draw
) -> None:
    special = st.sampled_from(known(kind).vocabulary.special_texts)
    accents = ["e\u0301"] * (kind != "words")
    parts = special | st.text(LETTERS, max_size=3) | st.sampled_from(["", *accents])
    text = data.draw(st.lists(parts, min_size=1, max_size=4).map("".join).filter(bool))
    form = data.draw(st.sampled_from([*FORMS]))
    lexicon, ends = known(kind).lexicon, known(kind).vocabulary.eos_ids
    *tokens, _ = drawn(Compiled(FORMS[form](text).source, lexicon), ends, draw)
    assert not any(map(lexicon.is_special, tokens))
    said = b"".join(map(lexicon.data_of, tokens)).decode()
    match form:
        case "const":
            assert json.loads(said) == text
        case "enum":
            assert json.loads(said) in (text, f"{text}a")
        case "name":
            assert json.loads(said) == {text: 1}
        case "choice":
            assert said in (text, f"{text}b")
        case _:
            assert said == text


@pytest.mark.parametrize(
    "kind", [name for name in FAMILIES if not speaker(name).tool_format.thinking]
)
@given(data=st.data(), draw=st.randoms(use_true_random=False))
def test_a_call_is_read_whole_though_its_names_are_those_of_special_tokens(
    kind: str, data: st.DataObject, draw: Draw
) -> None:
    vocabulary = speaker(kind)
    texts = st.sampled_from(vocabulary.special_texts).map("a{}b".format)
    name, key, value = data.draw(st.tuples(texts, texts, texts))
    one, other = tool(name, **{key: {"const": value}}), tool("x", a={"const": value})
    tools = Tools((one, other), data.draw(st.sampled_from([name, "required"])))
    request = Request("u", tools=tools)
    grammar = answers(kind).compiled(request, opened=False)
    assert grammar is not None
    out = read_back(request, vocabulary, drawn(grammar, vocabulary.eos_ids, draw))
    assert out.finish_reason == "tool_calls"
    for call in out.calls:
        assert (call.name, call.parsed) in [(name, {key: value}), ("x", {"a": value})]


@pytest.mark.parametrize("special", ["<|end|>", "<|user|>"])
def test_an_answer_ends_after_its_form_and_not_inside_it(special: str) -> None:
    engine, text = Engine.shared("pocket"), f"a {special} b"
    for form, grammar in FORMS.items():
        out = engine.generate("x", grammar=grammar(text), temperature=0)
        assert out.finish_reason == "stop"
        assert text in out.text, form
    ask = tool("ask", **{text: {"const": text}})
    out = engine.generate("x", tools=Tools((ask,), "required", parallel=False), temperature=0)
    assert [call.parsed for call in out.calls] == [{text: text}]


def test_a_special_token_that_a_grammar_names_is_that_token() -> None:
    lark = Grammar.lark('start: "a <|user|>" <|user|> "b" <[4]>')
    lexicon = known("pocket").lexicon
    raw = known("pocket").vocabulary.raw
    *tokens, _ = drawn(Compiled(lark.source, lexicon), [1], random.Random(0))
    assert [token for token in tokens if lexicon.is_special(token)] == [
        raw.token_to_id("<|user|>"),
        4,
    ]
