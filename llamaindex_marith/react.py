"""What a ReAct agent can read, as a grammar: small and strongly steered models follow it too."""

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
    """A thought of one line, then the call of one of the tools by its schema, or an answer.

    For `Marith(grammar=…)` in LlamaIndex's `ReActAgent` over the same tools. A thought has
    `most_letters` at most; a step that `max_tokens` cuts off is asked for again by the agent, so
    texts among the arguments had better be bounded. Raises RequestError for what are no tools.
    """
    if isinstance(most_letters, bool) or not isinstance(most_letters, int) or most_letters < 1:
        raise marith.RequestError(f"most_letters is a whole number from 1, not {most_letters!r}")
    allowed = to_tools(tools)
    if allowed is None:
        raise marith.RequestError(f"a ReAct agent has tools, not {tools!r}")
    for name in allowed.names:
        if _UNREAD.search(name):
            problem = "ReAct reads no spaces or brackets in the name of a tool"
            raise marith.RequestError(f"{problem}: {name!r}")
    rules = [
        r'start: "Thought: " THOUGHT ("\nAction: " action | "\nAnswer: " ANSWER)',
        f"THOUGHT: /[^\\n:]{{1,{most_letters}}}/",  # no colon: "Answer:" would end it
        r"ANSWER: /(.|\n)+/",
        f"action: {' | '.join(f'action_{i}' for i in range(len(allowed.names)))}",
    ]
    for i, tool in enumerate(allowed.callable):
        opening = json.dumps(f"{tool['name']}\nAction Input: ")
        rules += [f"action_{i}: {opening} input_{i}", f"input_{i}: %json {allowed.schema_of(tool)}"]
    return marith.Grammar.lark("\n".join(rules))
