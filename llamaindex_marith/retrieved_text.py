"""Find where a template puts retrieved text, by a regular expression of its fixed text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

from llama_index.core.chat_engine import condense_plus_context, context
from llama_index.core.prompts import (
    BasePromptTemplate,
    ChatPromptTemplate,
    PromptTemplate,
    SelectorPromptTemplate,
    chat_prompts,
    default_prompts,
)
from llama_index.core.query_engine import citation_query_engine

import marith

_RETRIEVED = ("context_str", "context_msg")
# LlamaIndex finds the variables of a template by the same expression.
_VARIABLE = re.compile(r"\{([^{}]+)\}")


def context_of(*templates: str | BasePromptTemplate) -> str:
    """Return a regular expression for `faithful_to`, which finds the context in filled templates.

    The context is the text in place of `{context_str}` or `{context_msg}`. The expression finds it
    by the text around the variable, up to the next variable on each side. Only the context is
    hidden, not the text around it. Raises RequestError for a template without such a variable, or
    without text around it.
    """
    frames = dict.fromkeys(frame for each in templates for frame in _frames(each))
    if not frames:
        raise marith.RequestError("context_of takes at least one template")
    return f"(?s:{'|'.join(frames)})"


def or_retrieved(pattern: str | None) -> str:
    """Return an expression for what `pattern` matches and for the context in LlamaIndex templates.

    Flags in `pattern` apply to `pattern` only.
    """
    return RETRIEVED if pattern is None else f"(?:{pattern})|{RETRIEVED}"


def _frames(template: str | BasePromptTemplate) -> list[str]:
    frames = [frame for text, names in _texts(template) for frame in _around(text, names)]
    if not frames:
        raise marith.RequestError(
            f"this template has no {{context_str}} with a text around it: {template}"
        )
    return frames


def _texts(template: str | BasePromptTemplate) -> Iterator[tuple[str, set[str]]]:
    """Yield each message of an unfilled template, and the variables that may be its context."""
    mapped = getattr(template, "template_var_mappings", None) or {}
    names = {mapped.get(name, name) for name in _RETRIEVED}
    match template:
        case str():
            yield template, names
        case PromptTemplate():
            yield template.template, names
        case ChatPromptTemplate():
            yield from ((message.content or "", names) for message in template.message_templates)
        case SelectorPromptTemplate():
            for each in (template.default_template, *(t for _, t in template.conditionals or ())):
                yield from _texts(each)
        case _:
            raise marith.RequestError(
                f"a {type(template).__name__} does not show where its context is"
            )


def _around(text: str, names: set[str]) -> Iterator[str]:
    """Yield expressions that find the context in a message, by the literal text around it.

    At the start or the end of a message the literal text may be empty. White space there is
    ignored, because some engines of LlamaIndex strip it. Elsewhere the literal text must not be
    white space only, because passages contain white space too.
    """
    pieces = _VARIABLE.split(text.strip())
    for i in range(1, len(pieces), 2):
        before, after, rest = pieces[i - 1], pieces[i + 1], pieces[i + 3 :: 2]
        opens, closes = i == 1 and not before, i == len(pieces) - 2 and not after
        if pieces[i] not in names or (opens and closes):
            continue
        if (opens or before.strip()) and (closes or after.strip()):
            start = r"\A" if opens else _literal(before)
            end = r"\z" if closes else _literal(after)
            end += "".join(f".*?{_literal(each)}" for each in rest)
            # Each expression has its own group name, so that several can be joined into one.
            name = f"context_{crc32((start + end).encode()):x}"
            # A passage may itself contain `after`, so the context extends to the last `after` that
            # all of `rest` still follows.
            yield f"{start}(?P<{name}>.*){end}"


def _literal(text: str) -> str:
    return re.escape(text).replace("\\ ", " ").replace("\\\n", "\n").replace("\\-", "-")


RETRIEVED = context_of(
    default_prompts.DEFAULT_TEXT_QA_PROMPT,
    default_prompts.DEFAULT_TREE_SUMMARIZE_PROMPT,
    default_prompts.DEFAULT_REFINE_PROMPT,
    default_prompts.DEFAULT_REFINE_TABLE_CONTEXT_PROMPT,
    chat_prompts.CHAT_TEXT_QA_PROMPT,
    chat_prompts.CHAT_TREE_SUMMARIZE_PROMPT,
    chat_prompts.CHAT_REFINE_PROMPT,
    chat_prompts.CHAT_REFINE_TABLE_CONTEXT_PROMPT,
    context.DEFAULT_CONTEXT_TEMPLATE,
    context.DEFAULT_REFINE_TEMPLATE,
    condense_plus_context.DEFAULT_CONTEXT_PROMPT_TEMPLATE,
    condense_plus_context.DEFAULT_CONTEXT_REFINE_PROMPT_TEMPLATE,
    citation_query_engine.CITATION_QA_TEMPLATE,
    citation_query_engine.CITATION_REFINE_TEMPLATE,
)
