"""What a term's readings of all prompts begin with is of the term alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith.formula.tree.terms import Prompted
from marith.request.cache_salt import CacheSalt
from marith.request.prompt import Prompt, to_prompt
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.kv_cache.lanes import Scope
from marith.scoring.language_model.prompted_scorer import PromptedScorer
from marith.scoring.prompting.public_prefixes import public_prefixes
from marith.testing import tiny_model, tiny_tokenizer

LATE = (
    "{% for m in messages if m.role != 'system' %}"
    "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}"
    "{{ m.content }} {% endfor %}"
)
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
    scope = scope_of(scorer, term, prompt)
    assert scope.lends
    assert (scope.salt == "a") == (scope.public > 0)
    return scope.public, reading


def scope_of(scorer: PromptedScorer, term: Prompted, prompt: Prompt) -> Scope:
    salt = CacheSalt("a", share_system=True)
    return scorer.scope(term, scorer.read(term, prompt), salt, prompt.head)


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
        assert reading[:count] in [*whole, ()]
        assert count == max(len(one) * (reading[: len(one)] == one) for one in whole)
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


def test_readings_with_a_clients_text_before_the_system_prompt_share_with_their_like(
    pocket_scorer: PromptedScorer,
) -> None:
    """So a guess that stands where the prompt does is not told how right it is."""

    def chat(own: str, asked: str = "Hello.") -> Prompt:
        return Prompt(({"role": "system", "content": own}, {"role": "user", "content": asked}))

    term, other = Prompted(SYSTEM), Prompted(f"{SYSTEM} Be brief.")
    known = scope_of(pocket_scorer, term, chat("x"))
    assert known == scope_of(pocket_scorer, term, chat("x", "And then?"))
    guesses = [chat(f"x\n\n{SYSTEM[:end]}") for end in (4, 9, 30)]
    for prompt in guesses:
        assert scope_of(pocket_scorer, term, prompt).shared(known, 99) == 0
        assert scope_of(pocket_scorer, Prompted(), prompt).shared(known, 99) == 0
    assert scope_of(pocket_scorer, other, chat("x")).shared(known, 99) == 0
    with_tools = replace(chat("x"), tools=({"type": "function", "function": {"name": "f"}},))
    assert scope_of(pocket_scorer, term, with_tools).shared(known, 99) == 0


def test_where_a_template_writes_the_system_prompt_late_a_chat_shares_with_itself_alone() -> None:
    """As Mistral's does, before the last message: a client's own messages stand before it."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = LATE
    scorer = PromptedScorer(loader.from_loaded(tiny_model(), tokenizer, Placement()))
    turns = [{"role": role, "content": "a b"} for role in ("user", "assistant", "user")]
    long = Prompt((*turns, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}))
    term = Prompted("k l m n")
    assert scope_of(scorer, term, Prompt(tuple(turns[:1]))).public > 3
    first = scope_of(scorer, term, Prompt(tuple(turns)))
    assert first == scope_of(scorer, term, Prompt(tuple(turns)))
    assert first.shared(scope_of(scorer, term, long), 99) == 0
    bare = scope_of(scorer, Prompted(), Prompt(tuple(turns)))
    assert bare.shared(scope_of(scorer, Prompted(), long), 99) == 99


def test_a_part_of_a_system_prompt_that_a_client_writes_is_not_public(
    pocket_scorer: PromptedScorer,
) -> None:
    words = SYSTEM.split()
    for count in range(1, len(words)):
        guess = {"role": "system", "content": " ".join(words[:count])}
        prompt = Prompt((guess, {"role": "user", "content": "Hello."}))
        assert public(pocket_scorer, Prompted(SYSTEM), prompt)[0] == 0
