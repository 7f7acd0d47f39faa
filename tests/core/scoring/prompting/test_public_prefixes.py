"""What a term's readings of all prompts begin with is of the term alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith.formula.tree.terms import Prompted
from marith.request.cache_salt import CacheSalt
from marith.request.prompt import Prompt, to_prompt
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.kv_cache.lanes import Scope, common
from marith.scoring.language_model.prompted_scorer import PromptedScorer
from marith.scoring.prompting.public_prefixes import public_prefixes

SYSTEM = "You answer as a patient teacher does, in words that a child of six knows."


@pytest.fixture(scope="module")
def pocket_scorer() -> PromptedScorer:
    return PromptedScorer(loader.base_model("pocket", None, Placement()))


TERMS = [
    Prompted(),
    Prompted(SYSTEM),
    Prompted(SYSTEM, mode="prepend"),
    Prompted(SYSTEM, mode="replace"),
    Prompted(SYSTEM, template="plain"),
    Prompted(SYSTEM, hide="[a-z0-9, Z]+"),
]


def public(scorer: PromptedScorer, term: Prompted, prompt: Prompt) -> tuple[int, tuple[int, ...]]:
    reading = scorer.read(term, prompt)
    assert scorer.scope(term, reading, CacheSalt("a")) == Scope("a", 0)
    scope = scorer.scope(term, reading, CacheSalt("a", share_system=True))
    assert (scope.salt, scope.lends) == ("a", True)
    return scope.public, reading


@pytest.mark.parametrize("term", TERMS, ids=range(len(TERMS)))
@given(texts=st.lists(st.text(max_size=20).filter(str.strip), min_size=1, max_size=2))
def test_public_are_the_first_tokens_that_all_prompts_have(
    pocket_scorer: PromptedScorer, term: Prompted, texts: list[str]
) -> None:
    """The public tokens of one prompt begin the reading of any other, whatever that is."""
    vocabulary = pocket_scorer.vocabulary
    if term.hide is not None:
        texts = [f"{text}?" for text in texts]
    whole = public_prefixes(term, vocabulary)
    for text in texts:
        count, reading = public(pocket_scorer, term, to_prompt(text))
        assert [*reading[:count]] in [*whole, []]
        assert count == max(len(one) * (common(one, [*reading]) == len(one)) for one in whole)
        spelt = vocabulary.decode(reading[:count])
        assert SYSTEM.startswith(spelt.strip()[: len(SYSTEM)]) or not term.system


def test_a_system_prompt_is_public_but_for_what_the_application_writes_before_it(
    pocket_scorer: PromptedScorer,
) -> None:
    own = {"role": "system", "content": "Secret: 4217."}
    asked = {"role": "user", "content": "Hello."}
    system = len(pocket_scorer.vocabulary.encode(SYSTEM))
    counts = {}
    for mode in ("append", "prepend", "replace"):
        term = Prompted(SYSTEM, mode=mode)  # type: ignore[arg-type]
        for messages in ([asked], [own, asked]):
            count, reading = public(pocket_scorer, term, Prompt(tuple(messages)))
            counts[mode, len(messages)] = count
            assert "4217" not in pocket_scorer.vocabulary.decode(reading[:count])
    assert all(counts[mode, 1] >= system for mode in ("append", "prepend", "replace"))
    assert counts["replace", 2] == counts["replace", 1]
    assert counts["append", 2] == 0
    assert counts["prepend", 2] in (0, counts["prepend", 1])


def test_tokens_have_the_system_prompt_before_them(pocket_scorer: PromptedScorer) -> None:
    term = Prompted(SYSTEM)
    tokens = tuple(pocket_scorer.vocabulary.encode("Hello."))
    count, reading = public(pocket_scorer, term, Prompt(tokens=tokens))
    assert count == len(reading) - len(tokens)
    assert public(pocket_scorer, Prompted(), Prompt(tokens=tokens))[0] == 0


def test_a_part_of_a_system_prompt_that_a_client_writes_is_not_public(
    pocket_scorer: PromptedScorer,
) -> None:
    words = SYSTEM.split()
    for count in range(1, len(words)):
        guess = {"role": "system", "content": " ".join(words[:count])}
        prompt = Prompt((guess, {"role": "user", "content": "Hello."}))
        assert public(pocket_scorer, Prompted(SYSTEM), prompt)[0] == 0
