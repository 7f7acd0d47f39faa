"""The log-probabilities of an answer are those with which the engine scores it."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from support.chat_families import speaker
from support.checked_engine import FORMULAS, CheckedEngine, request
from support.languages import REGULAR

import marith
from marith import Completion, Engine, Plan, Request, Sampling, Stop
from marith.testing import tiny_model

OWN = "ngram(order=3, online=True)"
CLOSE = 3e-5  # of models whose logits are scaled up, in formulas that scale them once more
HOWS = (None, "auto", Plan.drafts("big", length=3), Plan.drafts(OWN, length=5))


def told(checked: CheckedEngine, asked: Request, top: int = 0) -> Completion:
    return checked.engine.submit(replace(asked, logprobs=top)).result(60)


def scores(checked: CheckedEngine, asked: Request, tokens: list[int], formula: str) -> list[float]:
    return checked.engine.score(asked.prompt, tokens, formula, checked.terms)


def check(checked: CheckedEngine, asked: Request, out: Completion) -> None:
    """Each token's log-probability is the score of the text, by the formula and by each term."""
    assert out.logprobs is not None
    assert [one.token for one in out.logprobs] == out.tokens
    want = scores(checked, asked, out.tokens, str(asked.formula))
    assert [one.logprob for one in out.logprobs] == pytest.approx(want, abs=CLOSE, rel=CLOSE)


@pytest.mark.parametrize(("formula", "how"), [*zip(FORMULAS, cycle(HOWS), strict=False)], ids=str)
def test_each_log_probability_is_the_score_of_its_token(
    checked: CheckedEngine, formula: str, how: object
) -> None:
    i = (FORMULAS.index(formula) + HOWS.index(how)) % 3
    drawn = Sampling((0.7, 1.0, 1.4)[i], top_p=0.95, seed=3 + i, repetition_penalty=1.1)
    asked = replace(request(checked, formula, 40 + i, drawn), speculation=how)  # type: ignore[arg-type]
    check(checked, asked, told(checked, asked))


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_grammar_does_not_change_log_probabilities(checked: CheckedEngine, how: object) -> None:
    formula = "M - 0.5*x + 0.4*y"
    asked = replace(
        request(checked, formula, 7, Sampling(1.0, seed=3)),
        stop=Stop(20),
        speculation=how,  # type: ignore[arg-type]
        grammar=REGULAR.grammar,
    )
    out = told(checked, asked, 3)
    check(checked, asked, out)
    assert out.logprobs is not None
    likeliest = {each.token for one in out.logprobs for each in one.top}
    assert not likeliest <= {1, *range(2, 8)}  # what the grammar forbids is told all the same


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_the_log_probabilities_of_terms_are_their_own_scores(
    checked: CheckedEngine, how: object
) -> None:
    formula = "x - 0.6*y + 2*union(x, y) + 0.3*A + intersection(M, big)"
    asked = replace(request(checked, formula, 11, Sampling(1.0, seed=1)), speculation=how)  # type: ignore[arg-type]
    out = told(checked, asked)
    assert out.logprobs
    names = set(out.logprobs[0].terms)
    assert len(names) == 5
    for name in names:
        want = scores(checked, asked, out.tokens, name)
        got = [one.terms[name] for one in out.logprobs]
        assert got == pytest.approx(want, abs=CLOSE, rel=CLOSE)


@pytest.mark.parametrize(("how", "top"), [*zip(HOWS, (1, 5, 100, 5), strict=True)], ids=str)
def test_the_alternatives_are_the_likeliest_tokens(
    checked: CheckedEngine, how: object, top: int
) -> None:
    formula = "M - 0.9*union(x, M) + 0.5*y"
    asked = replace(request(checked, formula, 5, Sampling(1.0, seed=9)), speculation=how)  # type: ignore[arg-type]
    out = told(checked, asked, top)
    assert out.logprobs
    for place, one in enumerate(out.logprobs):
        row = checked.engine.next_logprobs(asked.prompt, formula, checked.terms, out.tokens[:place])
        want = row.sort(descending=True)
        assert [each.logprob for each in one.top] == pytest.approx(
            want.values[:top].tolist(), abs=1e-4
        )
        assert [each.logprob for each in one.top] == pytest.approx(
            row[[each.token for each in one.top]].tolist(), abs=1e-4
        )
        assert len({each.token for each in one.top}) == min(top, 28)


def test_asking_for_log_probabilities_does_not_change_the_text(checked: CheckedEngine) -> None:
    for i, formula in enumerate(FORMULAS[:8]):
        asked = request(checked, formula, 60 + i)
        plain = checked.engine.submit(asked).result(60)
        out = told(checked, asked, 2)
        assert (out.text, out.tokens, out.finish_reason) == (
            plain.text,
            plain.tokens,
            plain.finish_reason,
        )
        assert plain.logprobs is None


def test_log_probabilities_stream_with_their_tokens(checked: CheckedEngine) -> None:
    for i in range(6):
        asked = replace(request(checked, "2*x - M", i), logprobs=1)
        whole = checked.engine.submit(asked).result(60)
        chunks = list(checked.engine.submit(asked))
        for chunk in chunks:
            assert [one.token for one in chunk.logprobs] == list(chunk.tokens)
        streamed = [one.logprob for chunk in chunks for one in chunk.logprobs]
        assert whole.logprobs is not None
        assert streamed == pytest.approx([one.logprob for one in whole.logprobs], abs=CLOSE)


def test_the_tokens_of_a_stop_string_keep_their_log_probabilities(checked: CheckedEngine) -> None:
    """As it keeps the tokens themselves."""
    free = checked.engine.generate("a b", "2*x - M", checked.terms, Sampling(seed=4), Stop(12))
    stop = Stop(12, (free.text[5:7],))
    asked = Request("a b", "2*x - M", checked.terms, Sampling(seed=4), stop)
    out = told(checked, asked)
    assert out.finish_reason == "stop"
    assert out.stop_string == free.text[5:7]
    check(checked, asked, out)


@pytest.mark.parametrize("how", [None, "auto"])
def test_the_bytes_of_all_tokens_are_the_text(how: object) -> None:
    known = speaker("none")
    model = tiny_model(vocab=known.size, seed=2, sharpness=3.0, context_length=256)
    with Engine.load(model, tokenizer=known.tokenizer) as engine:
        asked = Request(
            "Grüße",
            stop=Stop(48),
            speculation=how,  # type: ignore[arg-type]
            grammar=marith.Grammar.regex("[a-céü東🌍]{40}"),
            logprobs=1,
        )
        drawn = [replace(asked, sampling=Sampling(seed=seed)) for seed in range(8)]
        for out in [ticket.result(60) for ticket in [engine.submit(one) for one in drawn]]:
            assert out.logprobs is not None
            data = b"".join(one.data for one in out.logprobs)
            assert data.decode(errors="replace") == out.text
            assert all(one.data.decode(errors="replace") == one.text for one in out.logprobs)
            assert max(len(one.data) for one in out.logprobs) == 1


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, False])
def test_the_number_of_alternatives_is_a_whole_number(count: object) -> None:
    with pytest.raises(marith.RequestError, match="logprobs") as told:
        Request("a", logprobs=count)  # type: ignore[arg-type]  # wrong on purpose
    assert repr(count) in str(told.value)
