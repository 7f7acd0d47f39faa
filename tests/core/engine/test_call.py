"""The arguments of a call: options by name, one prompt or many, one sample or many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith import Grammar, RequestError, Sampling, Stop
from marith.engine.call import Requests, request_of
from marith.request.completion import Ranking
from marith.request.prompt import prompts_of, to_prompt

CONVERSATION = [{"role": "user", "content": "Hi"}]


def request(sampling: Any = None, stop: Any = None, **options: Any) -> Any:
    return request_of("Hi", "M", None, sampling, stop, "auto", options)  # type: ignore[arg-type]


def test_options_by_name_are_those_of_sampling_and_stop() -> None:
    named = request(temperature=0.5, top_p=0.9, seed=3, max_tokens=7, timeout=2.0)
    assert named.sampling == Sampling(0.5, top_p=0.9, seed=3)
    assert (named.stop, named.timeout) == (Stop(7), 2.0)


def test_options_by_name_join_those_in_one_value() -> None:
    joined = request(Sampling(seed=3), Stop(strings=("x",)), temperature=0.5, max_tokens=7)
    assert joined.sampling == Sampling(0.5, seed=3)
    assert (joined.stop.max_tokens, joined.stop.strings) == (7, ("x",))
    assert request(Sampling(0.5), temperature=0.5).sampling == Sampling(0.5)


def test_none_means_that_an_option_is_not_given() -> None:
    assert request(temperature=None, top_p=None, seed=None).sampling == Sampling()
    assert request(None, None).stop == Stop()
    assert request(max_tokens=None).stop.max_tokens is None


@pytest.mark.parametrize(("stop", "strings"), [("x", ("x",)), (["x", "y"], ("x", "y")), ([], ())])
def test_stop_may_be_strings(stop: Any, strings: tuple[str, ...]) -> None:
    assert request(None, stop).stop.strings == strings


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"sampling": Sampling(0.5), "temperature": 0.7},
            r"given twice: temperature=0.7, and sampling=Sampling\(temperature=0.5\)",
        ),
        (
            {"stop": Stop(5), "max_tokens": None},
            r"max_tokens is given twice: max_tokens=None, and stop=Stop\(max_tokens=5\)",
        ),
        ({"stop": 5}, "stop must be a list of texts, not 5"),
    ],
)
def test_contradictory_options_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        request(**values)


def test_a_list_of_texts_or_of_conversations_is_many_prompts() -> None:
    assert prompts_of(["Hi", CONVERSATION]) == ["Hi", CONVERSATION]
    with pytest.raises(
        RequestError, match="either the messages of one prompt, or several prompts, not both"
    ):
        prompts_of(["Hi", *CONVERSATION])
    with pytest.raises(RequestError, match="one prompt is needed here, not a list of 2"):
        to_prompt(["Hi", "Hello"])  # type: ignore[list-item]


@given(st.integers(1, 4), st.booleans(), st.integers(1, 3), st.integers(-(2**63), 2**63 - 1))
def test_results_are_arranged_as_they_were_asked_for(
    n: int, is_list: bool, prompts: int, seed: int
) -> None:
    texts = [f"{i}" for i in range(prompts)] if is_list else "0"
    requests = Requests.of(texts, "M", None, Sampling(seed=seed), None, None, n, {})
    named: Any = [(r.prompt, (r.sampling.seed - seed) % 2**64) for r in requests.all]
    each = [[(f"{i}", k) for k in range(n)] for i in range(prompts if is_list else 1)]
    expected: Any = each if n > 1 else [samples[0] for samples in each]
    assert requests.arranged(named) == (expected if is_list else expected[0])


def test_a_ranking_begins_with_the_likeliest_and_probabilities_add_up_to_one() -> None:
    ranking = Ranking.of({"b": -1001.0, "c": float("-inf"), "a": -1000.0})
    assert ranking.text == "a"
    assert [*ranking.probabilities] == [*ranking.logprobs] == ["a", "b", "c"]
    assert sum(ranking.probabilities.values()) == pytest.approx(1)
    assert ranking.probabilities["b"] / ranking.probabilities["a"] == pytest.approx(0.36787944)
    assert ranking.probabilities["c"] == 0
    with pytest.raises(RequestError, match=r"options \['a', 'b'\] the probability 0; a cut"):
        Ranking.of({"a": float("-inf"), "b": float("-inf")})


@pytest.mark.parametrize("options", ["ab", ["a"], ["a", ""], ["a", 5], None])
def test_a_choice_needs_two_different_texts_or_more(options: Any) -> None:
    with pytest.raises(
        RequestError, match="options must be a list of at least two non-empty texts"
    ):
        Grammar.choice(options)
    with pytest.raises(RequestError, match="options contain 'a' more than once"):
        Grammar.choice(["a", "b", "a"])
