"""A grammar for ReAct agents, which small and strongly steered models follow too."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import marith
from llamaindex_marith.tool_selection import to_tools

_LETTERS = 400
_UNREAD = re.compile(r"[\s()]")


def react_grammar(tools: Sequence[Any], most_letters: int = _LETTERS) -> marith.Grammar:
    """Return a grammar: a thought of one line, then the call of a tool by its schema, or an answer.

    Pass it as `Marith(grammar=…)` to LlamaIndex's `ReActAgent` with the same tools. A thought has
    at most `most_letters` characters. The agent repeats a step that `max_tokens` cuts off, so give
    the string arguments of the tools a maximum length. Raises RequestError for invalid tools.
    """
    if isinstance(most_letters, bool) or not isinstance(most_letters, int) or most_letters < 1:
        raise marith.RequestError(f"most_letters is a whole number from 1, not {most_letters!r}")
    allowed = to_tools(tools)
    if allowed is None:
        raise marith.RequestError(f"a ReAct agent needs at least one tool, not {tools!r}")
    for name in allowed.names:
        if _UNREAD.search(name):
            problem = "the name of a tool for ReAct cannot contain spaces or brackets"
            raise marith.RequestError(f"{problem}: {name!r}")
    rules = [
        r'start: "Thought: " THOUGHT ("\nAction: " action | "\nAnswer: " ANSWER)',
        # A thought has no colon, because "Answer:" would end it.
        f"THOUGHT: /[^\\n:]{{1,{most_letters}}}/",
        r"ANSWER: /(.|\n)+/",
        f"action: {' | '.join(f'action_{i}' for i in range(len(allowed.names)))}",
    ]
    for i, tool in enumerate(allowed.callable):
        opening = json.dumps(f"{tool['name']}\nAction Input: ")
        rules += [f"action_{i}: {opening} input_{i}", f"input_{i}: %json {allowed.schema_of(tool)}"]
    return marith.Grammar.lark("\n".join(rules))
