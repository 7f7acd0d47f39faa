"""An answer that continues a prefix equals the answer that was never cut."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from support.held_passes import tiny_engine

from marith import Ban, ContextOverflow, Engine, Grammar, RequestError, Tools

FORMULA, TERMS = "M + 0.5*x + 0.3*y - 0.4*z", {"x": "a b", "y": "c d", "z": "e f"}
LETTERS = 40
DEFINED = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
KINDS: list[dict[str, Any]] = [
    {},
    {"speculation": None},
    {"stop": ["ab", "eel", "q"]},
    {"presence_penalty": 0.7, "frequency_penalty": 0.3, "repetition_penalty": 1.2},
    {"logit_bias": {3: 2.0, 5: -100.0}, "temperature": 1.3, "top_p": 0.9},
    {"stop_token_ids": [7, 9]},
    {"ignore_eos": True},
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with tiny_engine() as engine:
        yield engine


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
def test_a_seeded_text_is_the_same_when_it_is_cut_and_continued(engine: Engine, kind: Any) -> None:
    for seed in range(4):
        whole = engine.generate("a b c", FORMULA, TERMS, seed=seed, max_tokens=LETTERS, **kind)
        count = len(whole.tokens)
        if not count:
            continue
        cut = Random(seed).randrange(count)
        head = whole.tokens[:cut]
        left: dict[str, Any] = {**kind, "seed": seed, "max_tokens": LETTERS - cut}
        rest = engine.generate("a b c", FORMULA, TERMS, prefix=head, **left)
        assert rest.tokens == whole.tokens[cut:]
        assert rest.finish_reason == whole.finish_reason
        assert rest.usage.completion_tokens == count - cut
        assert rest.usage.total_tokens == whole.usage.total_tokens
        if cut and whole.stop_string is None:
            begun = engine.generate("a b c", FORMULA, TERMS, **{**left, "max_tokens": cut})
            assert begun.tokens == head
            assert begun.text + rest.text == whole.text


def test_streams_and_log_probabilities_continue_after_a_prefix(engine: Engine) -> None:
    asked: dict[str, Any] = {"seed": 4, "max_tokens": 20, "logprobs": 2}
    whole = engine.generate("a b", FORMULA, TERMS, **asked)
    assert whole.logprobs is not None
    left = {**asked, "prefix": whole.tokens[:7], "max_tokens": 13}
    chunks = [*engine.stream("a b", FORMULA, TERMS, **left)]
    given = [token.token for chunk in chunks for token in chunk.logprobs]
    assert given == [token.token for token in whole.logprobs[7:]]
    assert (
        "".join(chunk.text for chunk in chunks)
        == engine.decode(whole.tokens)[len(engine.decode(whole.tokens[:7])) :]
    )


def test_a_text_is_a_prefix_too_and_of_a_stop_string_only_the_rest_comes(engine: Engine) -> None:
    tokens = engine.encode("a b c")
    plans: list[Any] = [None, "auto"]
    for plan in plans:
        asked: dict[str, Any] = {"seed": 1, "max_tokens": 6, "stop": "cxq", "speculation": plan}
        by_text = engine.generate("a", FORMULA, TERMS, prefix="a b c", **asked)
        by_tokens = engine.generate("a", FORMULA, TERMS, prefix=tokens, **asked)
        assert by_text.text == by_tokens.text == engine.decode(by_text.tokens)


def test_a_call_can_be_continued_inside_its_arguments() -> None:
    with Engine.load("pocket") as engine:
        tools = Tools((DEFINED,), "required")
        asked: dict[str, Any] = {"seed": 3, "max_tokens": 60, "tools": tools}
        whole = engine.generate("Hello!", **asked)
        rest = engine.generate("Hello!", **{**asked, "prefix": whole.tokens[:9], "max_tokens": 51})
    assert rest.tokens == whole.tokens[9:]
    assert whole.calls[0].name == "f"


def test_a_ban_takes_back_no_token_of_a_prefix(engine: Engine) -> None:
    tokens = [2, 3]  # "ab"
    for seed in range(8):
        asked: dict[str, Any] = {"seed": seed, "max_tokens": 12, "ban": Ban(["bc"], False)}
        rest = engine.generate("a", "M", prefix=tokens, **asked)
        assert "bc" not in "ab" + rest.text
        assert len(rest.tokens) == rest.usage.completion_tokens


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"prefix": [10**6]}, "the prefix has token 1000000"),
        ({"prefix": [-1]}, "a token of prefix must be a whole number of at least 0"),
        ({"prefix": 3}, "prefix must be a text or a list of tokens"),
        ({"prefix": [1]}, "token 1, which ends a text"),
        ({"prefix": [2, 3, 2, 3], "stop": "ba"}, "the prefix is a whole answer"),
        ({"prefix": [3, 2, 5], "ban": Ban(["ba"], False)}, "the prefix has a banned word"),
        ({"logit_bias": {10**6: 1.0}}, "logit_bias has token 1000000"),
        ({"stop_token_ids": [10**6]}, "token_ids has token 1000000"),
        ({"ignore_eos": True, "grammar": Grammar.regex("a")}, "cannot be combined with a grammar"),
        ({"min_tokens": 9, "max_tokens": 8}, r"min_tokens must be at most max_tokens \(8\), not 9"),
    ],
    ids=str,
)
def test_a_prefix_that_cannot_be_continued_is_refused(
    engine: Engine, wrong: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RequestError, match=problem):
        engine.generate("a b", FORMULA, TERMS, **wrong)
    assert engine.status().lanes == 0


def test_a_prefix_longer_than_the_context_is_refused() -> None:
    with (
        Engine.load("pocket", context_length=40) as small,
        pytest.raises(ContextOverflow, match="the prefix has 60 tokens"),
    ):
        small.generate("Hello!", prefix=[300] * 60)


def test_no_end_comes_before_min_tokens_and_then_it_may(engine: Engine) -> None:
    lengths = set()
    for seed in range(12):
        for plan in (None, "auto"):
            drawn: dict[str, Any] = {"seed": seed, "temperature": 3.0, "speculation": plan}
            answer = engine.generate("a", FORMULA, TERMS, min_tokens=5, max_tokens=60, **drawn)
            assert len(answer.tokens) >= 5
            lengths.add(len(answer.tokens))
    assert min(lengths) < 20


def test_a_grammar_goes_on_and_ends_before_min_tokens() -> None:
    with Engine.load("pocket") as engine:
        answer = engine.generate("a", grammar=Grammar.regex("ab"), min_tokens=9)
        assert answer.text == "ab"
        words = Grammar.regex(r"([a-e]{2} ){2,5}[f-z]{3,9}\\.")
        for seed in range(5):
            asked: dict[str, Any] = {"seed": seed, "grammar": words}
            whole = engine.generate("Hello!", **asked)
            cut = Random(seed).randrange(len(whole.tokens))
            rest = engine.generate("Hello!", **asked, prefix=whole.tokens[:cut])
            assert rest.tokens == whole.tokens[cut:]
        with pytest.raises(RequestError, match="grammar allows no answer with the prefix 'Q': its"):
            engine.generate("Hello!", grammar=words, prefix="Q")
        second = engine.encode("aQ")
        with pytest.raises(RequestError, match=r"prefix \(.*\): its token \d of"):
            engine.generate("Hello!", grammar=words, prefix=second)


def test_a_stop_string_within_min_tokens_is_text(engine: Engine) -> None:
    ended = set()
    for seed, plan in ((seed, plan) for seed in range(20) for plan in (None, "auto")):
        drawn: dict[str, Any] = {"seed": seed, "temperature": 3.0, "speculation": plan}
        drawn |= {"stop": ["a", "bc"], "max_tokens": 60}
        answer = engine.generate("a", FORMULA, TERMS, min_tokens=9, **drawn)
        first = engine.decode(answer.tokens[:9])
        assert len(answer.tokens) >= 9
        assert answer.text.startswith(first) or answer.stop_string == "bc"
        rest = answer.text[len(first) :]
        assert "a" not in rest
        assert "bc" not in answer.text[len(first) - 1 :]
        ended |= {answer.stop_string} if "a" in first else set()
    assert {"a", "bc"} & ended, "one that comes later ends the text"


def test_a_prefix_may_have_a_stop_string_where_min_tokens_are_asked(engine: Engine) -> None:
    answer = engine.generate("a", prefix=[2, 3], stop="ab", min_tokens=2, max_tokens=4)
    assert len(answer.tokens) >= 2


def test_tokens_that_end_a_text_are_none_of_it_and_may_be_ignored(engine: Engine) -> None:
    free = engine.generate("a", FORMULA, TERMS, seed=5, max_tokens=40, ignore_eos=True)
    assert len(free.tokens) == 40
    end = free.tokens[10]
    ended = engine.generate(
        "a", FORMULA, TERMS, seed=5, max_tokens=40, ignore_eos=True, stop_token_ids=[end]
    )
    assert ended.tokens == free.tokens[: free.tokens.index(end)]
    assert ended.finish_reason == "stop"


def test_a_prompt_of_tokens_is_read_as_it_is(engine: Engine) -> None:
    tokens = engine.encode("ab cd")
    plain = 'prompted("", template="plain")'
    by_text = engine.next_logprobs("ab cd", plain)
    assert (engine.next_logprobs(tokens, "M") - by_text).abs().max() < 1e-5
    after_system = 'prompted("e f", template="plain")'
    by_text = engine.next_logprobs("ab cd", after_system)
    assert (engine.next_logprobs(tokens, "x", {"x": "e f"}) - by_text).abs().max() < 1e-5
    scores = engine.score(tokens, " a", FORMULA, TERMS)
    assert len(scores) == len(engine.encode(" a"))
    assert engine.generate(tokens, FORMULA, TERMS, seed=1, max_tokens=3).usage.prompt_tokens == len(
        tokens
    )
    with pytest.raises(RequestError, match="the prompt has token 1000000"):
        engine.generate([10**6])
    with pytest.raises(RequestError, match="a token of a prompt must be a whole number"):
        engine.score([5, "a"], "b")  # type: ignore[list-item]
    with pytest.raises(RequestError, match="no template that could offer tools"):
        engine.generate(tokens, tools=Tools((DEFINED,)))
