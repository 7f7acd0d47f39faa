"""What a ReAct agent can read, as a grammar: small and strongly steered models keep to it too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import marith
from llamaindex_marith.tools import to_tools

_LETTERS = 400


def react_grammar(tools: Sequence[Any], most_letters: int = _LETTERS) -> marith.Grammar:
    """A thought of one line, then the call of one of the tools by its schema, or an answer.

    For `Marith(grammar=…)` in LlamaIndex's `ReActAgent` over the same tools. A thought has
    `most_letters` at most. Raises RequestError for what are no tools.
    """
    known = to_tools(tools)
    if known is None:
        raise marith.RequestError(f"a ReAct agent has tools, not {tools!r}")
    rules = [
        r'start: "Thought: " THOUGHT ("\nAction: " action | "\nAnswer: " ANSWER)',
        f"THOUGHT: /[^\\n:]{{1,{most_letters}}}/",  # no colon: "Answer:" would end it
        r"ANSWER: /(.|\n)+/",
        f"action: {' | '.join(f'action_{i}' for i in range(len(known.names)))}",
    ]
    for i, tool in enumerate(known.callable):
        opening = json.dumps(f"{tool['name']}\nAction Input: ")
        rules += [f"action_{i}: {opening} input_{i}", f"input_{i}: %json {known.schema_of(tool)}"]
    return marith.Grammar.lark("\n".join(rules))
