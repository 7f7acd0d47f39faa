"""Messages as a term reads them: complete, and without special tokens from their content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_templates import (
    DROPS_SYSTEM,
    PLAIN_CHAT,
    REFUSES_SYSTEM,
    SPECIAL,
    assistant,
    read,
    shown,
    system,
    user,
    vocabulary,
)

from marith.errors import ContextOverflow, RequestError
from marith.formula.patterns import pattern_matches
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.choose_runner import runner_of
from marith.scoring.prompting.templates import fold, messages_as_read, to_plain_text, to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.weights.loader import Placement, from_loaded
from marith.testing import CHAT_TEMPLATE, tiny_model, tiny_tokenizer


@pytest.mark.parametrize(
    ("mode", "want"),
    [("append", "S\n\nT"), ("prepend", "T\n\nS"), ("replace", "T")],
)
def test_a_terms_system_prompt_joins_the_applications(mode: Any, want: str) -> None:
    term = Prompted(system="T", mode=mode)
    assert messages_as_read(term, [system("S"), user("u")]) == [system(want), user("u")]
    assert messages_as_read(term, [user("u")]) == [system("T"), user("u")]


def test_several_opening_system_messages_are_one_and_later_ones_stay() -> None:
    messages = [system("A"), {"role": "developer", "content": "B"}, user("u"), system("C")]
    want = [system("A\n\nB\n\nT"), user("u"), system("C")]
    assert messages_as_read(Prompted(system="T"), messages) == want


def test_hidden_text_is_removed_from_every_message() -> None:
    term = Prompted(hide=r"(?s)<context>.*?</context>")
    secret = "<context>Paris is\nthe capital</context>"
    messages = [system(f"S {secret}"), user(f"{secret} Where?"), assistant(secret), user("u")]
    kept = [dict(message) for message in messages]
    text = read(term, messages)
    assert "Paris" not in text
    assert "Where?" in text
    assert messages == kept
    assert "Paris" in read(Prompted(), messages)
    assert "Paris" not in read(Prompted(hide=term.hide, template="plain"), messages)


def test_hidden_text_is_removed_from_reasoning_too() -> None:
    thought = {**assistant("a"), "reasoning_content": "The page says 42."}
    (seen,) = messages_as_read(Prompted(hide="[0-9]+"), [thought])
    assert seen["reasoning_content"] == "The page says ."
    assert thought["reasoning_content"] == "The page says 42."


def test_joined_turns_keep_the_reasoning_of_both() -> None:
    thoughts = [{**assistant(text), "reasoning_content": text.upper()} for text in "ab"]
    want = [{**assistant("a\n\nb"), "reasoning_content": "A\n\nB"}]
    assert fold(thoughts) == want
    assert fold([assistant("a"), thoughts[1]]) == [{**want[0], "reasoning_content": "B"}]


@given(
    texts=st.lists(st.text(max_size=20), min_size=1, max_size=5),
    pattern=st.sampled_from(["a+", "[0-9]", r"\w"]),
)
def test_no_message_of_a_term_matches_what_it_hides(texts: list[str], pattern: str) -> None:
    seen = messages_as_read(Prompted(hide=pattern), [user(text) for text in texts])
    assert not any(pattern_matches(pattern, message["content"]) for message in seen)


def test_plain_is_system_text_a_newline_and_the_text() -> None:
    assert read(Prompted("Be kind.", template="plain"), [user("Hello")]) == "<s>Be kind.\nHello"
    assert read(Prompted("Be kind."), [user("Hello")], template=None) == "<s>Be kind.\nHello"
    assert read(Prompted(), [user("Hello")], template=None) == "<s>Hello"


def test_plain_names_the_roles_of_a_conversation() -> None:
    text = to_plain_text([system("S"), user("a"), assistant("b"), user("c")])
    assert text == "S\nUser: a\nAssistant: b\nUser: c\nAssistant:"


def test_chat_without_a_template_is_refused() -> None:
    with pytest.raises(RequestError, match="no chat template"):
        read(Prompted(template="chat"), [user("u")], template=None)


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, DROPS_SYSTEM])
def test_system_text_is_folded_where_a_template_refuses_or_loses_it(template: str) -> None:
    text = read(Prompted("T"), [system("S"), user("u"), assistant("a"), user("v")], template)
    want = "<s><|turn|>user\nS\n\nT\n\nu</s><|turn|>assistant\na</s><|turn|>user\nv</s>"
    assert text == f"{want}<|turn|>assistant"


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, DROPS_SYSTEM])
def test_a_later_system_message_is_not_lost_either(template: str) -> None:
    text = read(Prompted(), [user("u"), assistant("a"), system("Mind this."), user("v")], template)
    assert "Mind this." in text


def test_equal_roles_are_one_turn_where_a_template_wants_them_to_alternate() -> None:
    text = read(Prompted(), [user("u"), user("v"), assistant("a"), user("w")], REFUSES_SYSTEM)
    assert text.startswith("<s><|turn|>user\nu\n\nv</s><|turn|>assistant\na</s>")


@pytest.mark.parametrize("template", [PLAIN_CHAT, REFUSES_SYSTEM, DROPS_SYSTEM])
def test_a_developer_is_a_system_where_a_template_knows_no_developer(template: str) -> None:
    """OpenAI's new name of a role that chat models know as system, wherever it stands."""
    told = [user("u"), assistant("a"), system("Rhyme."), user("v"), system("Be brief.")]
    as_developer = [
        {**message, "role": "developer"} if message["role"] == "system" else message
        for message in told
    ]
    assert read(Prompted(), as_developer, template) == read(Prompted(), told, template)
    assert "developer" in read(Prompted(), as_developer, PLAIN_CHAT + "{# developer #}")


@given(roles=st.lists(st.sampled_from(["system", "user", "assistant"]), min_size=1, max_size=8))
def test_folding_alternates_and_keeps_every_text_in_order(roles: list[str]) -> None:
    messages = [{"role": role, "content": f"text {i}"} for i, role in enumerate(roles)]
    folded = fold(messages)
    turns = [message["role"] for message in folded]
    assert "system" not in turns
    assert all(a != b for a, b in zip(turns, turns[1:], strict=False))
    joined = "\n\n".join(message["content"] for message in folded)
    assert joined == "\n\n".join(message["content"] for message in messages)


def test_a_greeting_follows_an_empty_turn_where_a_user_has_to_begin() -> None:
    """Companions greet first, and a history that was cut may begin with an answer."""
    greeting = [assistant("Welcome!"), user("u"), user("v")]
    text = read(Prompted(), greeting, REFUSES_SYSTEM)
    begun = "<s><|turn|>user\n</s><|turn|>assistant\nWelcome!</s><|turn|>user\nu\n\nv</s>"
    assert text.startswith(begun)
    assert text == read(Prompted(), [user(""), *greeting], REFUSES_SYSTEM)
    assert read(Prompted(), greeting).startswith("<s><|turn|>assistant\nWelcome!")
    call = {"type": "function", "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    calling = {**assistant(""), "tool_calls": [call]}
    told = {"role": "tool", "content": "Noon.", "tool_call_id": "c1"}
    text = read(Prompted(), [calling, told], REFUSES_SYSTEM)
    assert text.startswith("<s><|turn|>user\n</s><|turn|>assistant\n<tool_call>")
    assert "Noon." in text


def test_an_error_of_a_template_is_quoted() -> None:
    with pytest.raises(RequestError, match="poems alone"):
        read(Prompted(), [assistant("a"), user("u")], "{{ raise_exception('poems alone') }}")


def test_a_template_writes_its_own_start_and_no_second_is_added() -> None:
    tokens = to_tokens(Prompted(), to_prompt("hi"), vocabulary())
    assert tokens.count(0) == 1
    assert to_tokens(Prompted(template="plain"), to_prompt("hi"), vocabulary()).count(0) == 1


def test_tool_calls_without_content_and_their_results_are_messages() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    prompt = to_prompt(
        [
            user("u"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42", "tool_call_id": "1"},
        ]
    )
    assert prompt.messages[1]["content"] == ""
    assert prompt.messages[1]["tool_calls"] == [{**call, "id": "1"}]
    assert "42" in shown(to_tokens(Prompted(), prompt, vocabulary()), vocabulary())


contents = st.lists(
    st.sampled_from([*SPECIAL, "\ue0f00\ue0f1", "\ue0f07\ue0f1", "\ue0f0", "0", "\n"])
    | st.text(max_size=5),
    max_size=6,
).map("".join)


@given(first=contents, second=contents, template=st.sampled_from([PLAIN_CHAT, DROPS_SYSTEM]))
def test_content_that_spells_special_tokens_becomes_ordinary_tokens(
    first: str, second: str, template: str
) -> None:
    known = vocabulary(template)
    innocent = to_tokens(Prompted(), to_prompt([user("a"), assistant("b"), user("c")]), known)
    tokens = to_tokens(Prompted(), to_prompt([user(first), assistant(second), user("c")]), known)
    special = [t for t in tokens if t < len(SPECIAL)]
    assert special == [t for t in innocent if t < len(SPECIAL)]
    assert shown(tokens, known) == shown(innocent, known).replace(
        "user\na<", f"user\n{first}<", 1
    ).replace("assistant\nb<", f"assistant\n{second}<", 1)


@given(text=contents)
def test_plain_text_that_spells_special_tokens_becomes_ordinary_tokens(text: str) -> None:
    tokens = to_tokens(Prompted(text, template="plain"), to_prompt(text), vocabulary())
    assert tokens[0] == 0
    assert all(token >= len(SPECIAL) for token in tokens[1:])


def test_a_folded_system_prompt_that_spells_special_tokens_becomes_ordinary_tokens() -> None:
    for template in (REFUSES_SYSTEM, DROPS_SYSTEM, PLAIN_CHAT):
        text = to_tokens(Prompted("a</s>b"), to_prompt("u"), vocabulary(template))
        bare = to_tokens(Prompted("ab"), to_prompt("u"), vocabulary(template))
        assert sum(t < 3 for t in text) == sum(t < 3 for t in bare)
        assert "a</s>b" in shown(text, vocabulary(template))


def test_a_template_that_cuts_a_message_makes_no_special_token() -> None:
    cuts = "{% for m in messages %}{{ m['content'][:20] }}{% endfor %}"
    prompt = to_prompt([user("a</s>b"), assistant("plain"), user("c</s>d")])
    tokens = to_tokens(Prompted(), prompt, vocabulary(cuts))
    assert all(token >= len(SPECIAL) for token in tokens)
    assert "plain" in shown(tokens, vocabulary(cuts))


def test_tool_calls_that_spell_special_tokens_become_ordinary_tokens() -> None:
    template = (
        "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments.x }}"
        "{% endfor %}</s>{% endfor %}"
    )
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": "1</s><|turn|>"}}}
    messages = [user("u"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    tokens = to_tokens(Prompted(), to_prompt(messages), vocabulary(template))
    assert sum(token < len(SPECIAL) for token in tokens) == 4


def test_an_empty_prompt_starts_from_the_start_token() -> None:
    assert to_tokens(Prompted(), to_prompt(""), vocabulary(None)) == [0]
    assert to_tokens(Prompted(), to_prompt(""), vocabulary(None, adds_start=False)) == [0]
    assert to_tokens(Prompted(), to_prompt(""), Vocabulary(tiny_tokenizer(), 28)) == [0]


@pytest.mark.parametrize("template", [PLAIN_CHAT, None])
@pytest.mark.parametrize("text", ["", "a b", "Ben is rude.\nBen: "])
def test_a_whole_text_takes_the_place_of_every_prompt(template: str | None, text: str) -> None:
    known = vocabulary(template)
    want = known.encode(text, start=True) or [0]
    for prompt in ([system("S"), user("u")], "u", "", [9, 5, 7]):
        assert to_tokens(Prompted(text, mode="whole"), to_prompt(prompt), known) == want


@pytest.mark.parametrize("template", [PLAIN_CHAT, REFUSES_SYSTEM, None])
def test_a_system_message_alone_that_a_term_replaces_by_nothing_is_still_a_prompt(
    template: str | None,
) -> None:
    known = vocabulary(template)
    for messages in ([system("")], [system("S")]):
        try:
            assert to_tokens(Prompted(mode="replace"), to_prompt(messages), known)
        except RequestError:
            pass


def test_an_empty_prompt_without_any_start_token_is_refused() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = tokenizer.eos_token = None
    with pytest.raises(RequestError, match="empty"):
        to_tokens(Prompted(), to_prompt(""), Vocabulary(tokenizer, 28))


def test_a_prompt_over_the_context_names_the_numbers_and_none_is_cut() -> None:
    model = tiny_model(context_length=16)
    checkpoint = from_loaded(model, tiny_tokenizer(), Placement())
    scorer = PromptedScorer(checkpoint, runner_of(checkpoint))
    fits = scorer.read(Prompted(), to_prompt(" ".join("a" * 15)))
    assert len(fits) == 15
    with pytest.raises(ContextOverflow, match=r"16 tokens.*holds 16"):
        scorer.read(Prompted(), to_prompt(" ".join("a" * 16)))
    with pytest.raises(ContextOverflow, match=r"40 tokens.*holds 16"):
        scorer.read(Prompted("b " * 30), to_prompt(" ".join("a" * 10)))


def test_the_testing_template_is_read_as_it_is_written() -> None:
    known = Vocabulary(tiny_tokenizer(("?", "user", "assistant", ":", "a"), CHAT_TEMPLATE), 10)
    tokens = to_tokens(Prompted(), to_prompt("a"), known)
    assert tokens == [3, 5, 6, 4, 5]
