"""A term without retrieved text reads the prompt as if nothing had been retrieved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import condense_plus_context, context
from llama_index.core.chat_engine.utils import get_prefix_messages_with_context
from llama_index.core.prompts import (
    BasePromptTemplate,
    ChatPromptTemplate,
    PromptTemplate,
    RichPromptTemplate,
    chat_prompts,
    default_prompts,
)
from llama_index.core.query_engine import citation_query_engine

from llamaindex_marith.chat_messages import to_dicts
from llamaindex_marith.retrieved_text import RETRIEVED, context_of, or_retrieved
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import messages_as_read

SYSTEM = "You speak like a pirate."
HISTORY = [
    ChatMessage(role=MessageRole.USER, content="Hello."),
    ChatMessage(role=MessageRole.ASSISTANT, content="Ahoy."),
]


def chat_engine(template: str) -> BasePromptTemplate:
    """As a chat engine sends it: in the system's words, with the turns before."""
    sent = get_prefix_messages_with_context(
        PromptTemplate(template), SYSTEM, [], HISTORY, MessageRole.SYSTEM
    )
    return ChatPromptTemplate.from_messages(sent)


QUESTIONS: dict[str, BasePromptTemplate] = {
    "question": chat_prompts.CHAT_TEXT_QA_PROMPT,
    "question, plain": default_prompts.DEFAULT_TEXT_QA_PROMPT,
    "tree": chat_prompts.CHAT_TREE_SUMMARIZE_PROMPT,
    "tree, plain": default_prompts.DEFAULT_TREE_SUMMARIZE_PROMPT,
    "citations": citation_query_engine.CITATION_QA_TEMPLATE,
    "context chat": chat_engine(context.DEFAULT_CONTEXT_TEMPLATE),
    "condense": chat_engine(condense_plus_context.DEFAULT_CONTEXT_PROMPT_TEMPLATE),
}
REFINES: dict[str, BasePromptTemplate] = {
    "refine": chat_prompts.CHAT_REFINE_PROMPT,
    "refine, plain": default_prompts.DEFAULT_REFINE_PROMPT,
    "refine of a table": chat_prompts.CHAT_REFINE_TABLE_CONTEXT_PROMPT,
    "refine of a table, plain": default_prompts.DEFAULT_REFINE_TABLE_CONTEXT_PROMPT,
    "refine of citations": citation_query_engine.CITATION_REFINE_TEMPLATE,
    "refine of a context chat": chat_engine(context.DEFAULT_REFINE_TEMPLATE),
    "refine of condense": chat_engine(condense_plus_context.DEFAULT_CONTEXT_REFINE_PROMPT_TEMPLATE),
}
TEMPLATES = {**QUESTIONS, **REFINES}
each_template = pytest.mark.parametrize("name", TEMPLATES)

lines = st.text(max_size=20) | st.sampled_from(
    ["-" * 10, "-" * 12, "-" * 20, "-" * 21, "Query: why?", "Answer: ", "Original Answer: no", "",
     "{context_str}", "{query_str}", "{context_msg}", "{", "}}", "New Context: ", r"\g<0> \Z (.*)",
     "Context information is below.", "  Existing Answer:", "Ünïcödé 漢字 \u2028 🙂", "\r"]
)  # fmt: skip
contexts = st.lists(lines, max_size=6).map("\n".join)
spoken = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
questions = spoken | st.sampled_from(["What is {it}?", "Query: what? Answer: -----", "¿Qué?"])


def sent(name: str, retrieved: str, question: str, answer: str = "so far") -> list[dict[str, Any]]:
    """What LlamaIndex sends for a question, as the engine gets it."""
    variable = "context_msg" if name in REFINES else "context_str"
    variables = {
        variable: retrieved,
        "query_str": question,
        "existing_answer": answer,
        "schema": "a, b",
    }
    return to_dicts(TEMPLATES[name].format_messages(**variables))


def read(messages: list[dict[str, Any]], hide: str = RETRIEVED) -> list[dict[str, Any]]:
    return messages_as_read(Prompted(hide=hide), to_prompt(messages).messages)


def text(messages: list[dict[str, Any]]) -> str:
    return "\n".join(message["content"] for message in messages)


@each_template
@given(contexts, questions)
def test_the_prompt_is_read_as_if_nothing_had_been_retrieved(
    name: str, retrieved: str, question: str
) -> None:
    empty = sent(name, "", question)
    assert read(sent(name, retrieved, question)) == empty
    assert question in text(empty)


@pytest.mark.parametrize("name", REFINES)
@given(contexts, questions, contexts)
def test_the_existing_answer_of_a_refine_template_is_still_read(
    name: str, retrieved: str, question: str, answer: str
) -> None:
    assume("\nOriginal Answer: " not in answer)  # else which one is the template's?
    empty = sent(name, "", question, answer)
    assert read(sent(name, retrieved, question, answer)) == empty
    assert answer in text(empty)


@given(st.lists(contexts, min_size=1, max_size=3))
def test_a_message_without_a_frame_is_left_as_it_is(contents: list[str]) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    assert read(messages) == messages


letters = st.characters(exclude_categories=["Cs"], exclude_characters="{}")
frames = (st.text("abc -\n.*(", min_size=1) | st.text(letters, min_size=1)).filter(str.strip)


@given(frames, frames, contexts, spoken)
def test_a_template_of_ones_own_is_hidden_by_its_own_words(
    before: str, after: str, retrieved: str, question: str
) -> None:
    template = PromptTemplate(f"{before}{{context_str}}{after}{{query_str}}")
    pattern = context_of(template)

    prompt, empty = (template.format(context_str=c, query_str=question) for c in (retrieved, ""))
    assume(after not in f"{after[1:]}{question}")  # else where it ends cannot be known
    assert text(read([{"role": "user", "content": prompt}], pattern)) == empty


def test_a_variable_may_have_another_name() -> None:
    template = PromptTemplate(
        "Read {found}. Then: {asked}",
        template_var_mappings={"context_str": "found", "query_str": "asked"},
    )
    prompt = template.format(context_str="Grass is pink", query_str="Grass?")
    (seen,) = read([{"role": "user", "content": prompt}], context_of(template))
    assert seen["content"] == "Read . Then: Grass?"


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{query_str}", r"\{query_str\}"),
        ("{context_str}", "text around it"),
        (PromptTemplate("{context_str}\n"), "text around it"),
        (RichPromptTemplate("{{ context_str }} and {{ query_str }}"), "RichPromptTemplate"),
    ],
)
def test_a_template_that_does_not_show_its_context_is_refused(template: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        context_of(template)


@pytest.mark.parametrize("pattern", ["(?is)<C>.*?</c>", "<c>.*?</c>", "(?i)<C>(?P<own>.*?)</C>"])
def test_a_pattern_with_flags_stands_beside_the_templates(pattern: str) -> None:
    seen = Prompted(hide=or_retrieved(pattern))
    template = default_prompts.DEFAULT_TEXT_QA_PROMPT
    shown = template.format(context_str="A Passage.", query_str="Who?")
    messages = [{"role": "user", "content": f"<c>another</c> {shown}"}]
    (message,) = messages_as_read(seen, messages)
    assert "another" not in message["content"]
    assert "A Passage" not in message["content"]
    assert "Who?" in message["content"]
    assert or_retrieved(None) == RETRIEVED
