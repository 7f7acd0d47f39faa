"""After a number of tokens of reasoning, the mark that ends it is written and the answer begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from support.chat_families import THINKING_CHAT, speaker, tool
from support.small_engine import FlatTimes, assume_times

from marith import Ban, Completion, Engine, Grammar, Request, RequestError, Sampling, Stop, Tools
from marith.testing import scripted_model, tiny_model

THOUGHT = "aa bb cc dd ee ff gg aa bb cc dd ee ff gg"
KINDS = "thinking", "thinking special", "opened", "letters"
SWITCHED = THINKING_CHAT.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}",
)
# A formula that gives probability to three tokens only, and hardly ever to a mark.
NEVER = "M.top_k(3)"


def tokenizer_of(kind: str) -> Any:
    if kind != "letters":
        return speaker(kind).tokenizer
    tokenizer = deepcopy(speaker("chatml").tokenizer)
    tokenizer.chat_template = THINKING_CHAT
    return tokenizer


@pytest.fixture(scope="module")
def wild() -> Iterator[dict[str, Engine]]:
    """Engines over random weights, which open their reasoning only if they are led to."""
    with ExitStack() as stack:
        engines = {}
        for kind in KINDS:
            tokenizer = tokenizer_of(kind)
            model = tiny_model(vocab=len(tokenizer), seed=8, context_length=512)
            engine = Engine.load(model, tokenizer=tokenizer)
            assume_times(engine, FlatTimes)
            engines[kind] = stack.enter_context(engine)
        yield engines


def marked(engine: Engine, text: str) -> tuple[int, ...]:
    return tuple(engine.answers.vocabulary.encode(text, literal=False))


def opened(engine: Engine, kind: str) -> dict[str, Any]:
    return {} if kind == "opened" else {"prefix": marked(engine, "<think>")}


def in_reasoning(engine: Engine, out: Completion, kind: str) -> int:
    """Return the number of tokens before the mark that ends the reasoning."""
    vocabulary = engine.answers.vocabulary
    for count in range(len(out.tokens) + 1):
        if "</think>" in vocabulary.spell(out.tokens[:count]):
            mark = 1 if kind != "letters" else len("</think>")
            return count - mark
    raise AssertionError("the reasoning did not end")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [0, 1, 5, 9])
@pytest.mark.parametrize("formula", ["M", NEVER])
def test_the_mark_is_written_after_the_limit_whatever_the_formula(
    wild: dict[str, Engine], kind: str, most: int, formula: str
) -> None:
    engine, texts, cut = wild[kind], set(), 0
    for seed in range(3):
        for how in (None, "auto"):
            out = engine.generate(
                "q", formula, sampling=Sampling(seed=seed), speculation=how, max_tokens=30,
                max_reasoning_tokens=most, ignore_eos=True, **opened(engine, kind),
            )  # fmt: skip
            length = in_reasoning(engine, out, kind)
            texts.add((seed, tuple(out.tokens)))
            if length > most:
                # Only an unfinished character may be completed first.
                assert length <= most + 3
                made = out.tokens[:most]
                assert engine.answers.vocabulary.spell(made).endswith("\ufffd")
            cut += length >= most
            assert out.usage.reasoning_tokens <= most + 3 + len("</think>")
            assert out.text
    # Drafts do not change a seeded text.
    assert len(texts) == 3
    assert cut


def test_a_ban_goes_back_before_the_mark_that_was_written(wild: dict[str, Engine]) -> None:
    """After `b</think>` only the banned word follows, and after `d</think>` another one."""
    engine = wild["thinking"]
    terms = {
        "then": {"formula": 'ngram(texts=["b</think>a", "d</think>e"], order=3)'},
        "rest": {"formula": 'ngram(texts=["bdbdbdbd"], order=1)'},
    }
    formula = "where(reasoning() > 0, rest.top_k(2), then.top_k(1))"
    rewinds = 0
    for seed in range(6):
        out = engine.generate(
            "q", formula, terms, sampling=Sampling(seed=seed), max_tokens=3,
            max_reasoning_tokens=1, ban=Ban(["a"], whole_words=False), **opened(engine, "thinking"),
        )  # fmt: skip
        assert (out.reasoning, out.text) == ("d", "e")
        rewinds += out.stats.rewinds
    assert rewinds


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_within_the_limit_is_as_without_one(wild: dict[str, Engine], kind: str) -> None:
    engine = wild[kind]
    asked = {"sampling": Sampling(seed=4), "max_tokens": 20, **opened(engine, kind)}
    plain = engine.generate("q", **asked)
    assert engine.generate("q", max_reasoning_tokens=64, **asked).tokens == plain.tokens


@pytest.mark.parametrize(("kind", "goes_on"), [("thinking", "</think>"), ("letters", "nk>")])
def test_a_mark_that_the_text_has_begun_counts(
    wild: dict[str, Engine], kind: str, goes_on: str
) -> None:
    engine = wild[kind]
    prefix = (*marked(engine, "<think>"), *engine.encode("ab</thi"))
    out = engine.generate(
        "q", max_reasoning_tokens=3, max_tokens=20, prefix=prefix, ignore_eos=True,
        sampling=Sampling(seed=1),
    )  # fmt: skip
    assert engine.answers.vocabulary.spell(out.tokens).startswith(goes_on)


def test_grammars_tools_bans_and_the_least_length_hold(wild: dict[str, Engine]) -> None:
    engine, limit = wild["opened"], {"max_reasoning_tokens": 4, "max_tokens": 90}
    seeded = {"sampling": Sampling(seed=5), **limit}
    out = engine.generate("q", grammar=Grammar.regex("[ab]{3}"), **seeded)
    assert len(out.text) == 3
    assert set(out.text) <= {"a", "b"}
    tools = Tools((tool("p", v={"enum": ["a", "b"]}),), "required")
    out = engine.generate("q", tools=tools, **seeded)
    assert out.calls[0].parsed["v"] in ("a", "b")
    for how in (None, "auto"):
        out = engine.generate(
            "q", ban=Ban(["a", "e"], whole_words=False), speculation=how, logprobs=2,
            sampling=Sampling(seed=2), min_tokens=30, **limit,
        )  # fmt: skip
        assert not {"a", "e"} & {*out.text, *out.reasoning}
        assert len(out.tokens) >= 30
        assert len(out.logprobs or ()) == len(out.tokens)


@pytest.mark.parametrize("kind", ["thinking", "thinking special"])
def test_a_grammar_lets_no_reasoning_begin_where_it_is_turned_off(
    wild: dict[str, Engine], kind: str
) -> None:
    engine, yes = wild[kind], Grammar.regex("yes|no")
    off = Request("q", grammar=yes, stop=Stop(9, max_reasoning_tokens=0))
    mark = marked(engine, "<think>")
    with pytest.raises(RequestError, match="the grammar allows no answer with the prefix"):
        engine.submit(replace(off, prefix=mark)).result(60)
    assert engine.submit(off).result(60).text in ("yes", "no")
    on = replace(off, prefix=mark, stop=Stop(30, max_reasoning_tokens=3))
    assert engine.submit(on).result(60).text in ("yes", "no")


SCRIPT = [
    ("Begin", f"<think>\n{THOUGHT}\n</think>\n\nGood day."),
    ("Brief", "Good day."),
]


@pytest.mark.parametrize("most", [0, 5, None])
def test_chunks_and_usage_of_a_scripted_model(most: int | None) -> None:
    tokenizer = speaker("thinking special").tokenizer
    with Engine.load(scripted_model(SCRIPT, tokenizer), tokenizer=tokenizer) as engine:
        chunks = [*engine.stream("Begin", sampling=Sampling(0.0), max_reasoning_tokens=most)]
        out = engine.generate("Begin", sampling=Sampling(0.0), max_reasoning_tokens=most)
        assert "".join(chunk.reasoning for chunk in chunks) == out.reasoning
        assert "".join(chunk.text for chunk in chunks) == out.text
        if most is None:
            assert (out.reasoning, out.text) == (THOUGHT, "Good day.")
        else:
            assert THOUGHT.startswith(out.reasoning)
            assert len(engine.encode(out.reasoning)) <= most
        brief = engine.generate("Brief", sampling=Sampling(0.0), max_reasoning_tokens=most)
        assert (brief.reasoning, brief.text) == ("", "Good day.")


def test_zero_turns_reasoning_off_where_the_template_can() -> None:
    tokenizer = deepcopy(speaker("thinking").tokenizer)
    tokenizer.chat_template = SWITCHED
    with Engine.load(tiny_model(vocab=len(tokenizer)), tokenizer=tokenizer) as engine:
        vocabulary = engine.answers.vocabulary
        assert vocabulary.tool_format.switch == "enable_thinking"
        assert speaker("thinking").tool_format.switch is None

        def prompt(**asked: Any) -> str:
            return vocabulary.spell(engine.open(Request("q", **asked)).prompt)

        off = Stop(9, max_reasoning_tokens=0)
        assert prompt(stop=off).endswith("</think>\n\n")
        assert prompt() == prompt(stop=Stop(9, max_reasoning_tokens=5))
        kept = prompt(stop=off, template_options={"enable_thinking": True})
        assert kept == prompt()


def test_a_model_that_knows_no_reasoning_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with Engine.load("pocket") as engine:
        for _ in range(2):
            out = engine.generate("Hi", max_reasoning_tokens=3, max_tokens=2)
            assert any("max_reasoning_tokens" in warning for warning in out.warnings)
    said = [record for record in caplog.records if "max_reasoning_tokens" in record.message]
    assert len(said) == 1
