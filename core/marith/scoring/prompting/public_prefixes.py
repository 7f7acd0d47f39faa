"""What every prompt begins with as a term reads it, whatever is asked: of no request's texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

from marith.errors import RequestError
from marith.formula.tree.terms import Prompted
from marith.request.prompt import Prompt
from marith.scoring.kv_cache.lanes import common
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary

NO_HEAD = Prompt().head


def public_prefixes(
    term: Prompted, vocabulary: Vocabulary, head: str = NO_HEAD
) -> Sequence[tuple[int, ...]]:
    """The first tokens of all chats with a `head`, and of all prompts of tokens, as a term reads.

    Without a head they come from the chat template and from the term's system prompt alone.
    """
    systems, tools, options = json.loads(head)
    chats = [
        Prompt((*systems, {"role": "user", "content": text}), tuple(tools), options)
        for text in ("a", "7, Z")
    ]
    by_number = [Prompt(tokens=tokens) for tokens in ((1,), (2, 2))]
    found = []
    for prompts in (chats, by_number):  # two of each kind that have nothing in common
        try:
            one, other = (to_tokens(term, prompt, vocabulary) for prompt in prompts)
        except RequestError:  # the term reads no prompts of this kind
            continue
        found.append(tuple(one[: common(one, other)]))
    return found
