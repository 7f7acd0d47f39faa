"""Choose `faithful` for a model: count its right answers to your questions at five values.

`python choose_faithful.py MODEL DTYPE RULES` reads lines of JSON, each with a `document`, a
`passage`, a `question`, and `answers`: a right answer contains one of them. Each question is asked
with its passage alone, and then with two more passages of the same document.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode

from llamaindex_marith import Marith
from marith import Engine
from marith.evals.statistics import difference

VALUES = (0.0, 0.1, 0.25, 0.5, 1.0)
RULES = Path(__file__).with_name("house_rules.jsonl")


def retrieved(rules: list[dict[str, Any]], rule: dict[str, Any], count: int) -> list[str]:
    """Return the passage of a rule, among those that follow it in its document."""
    document = [each for each in rules if each["document"] == rule["document"]]
    at = document.index(rule)
    near = [document[(at + i) % len(document)]["passage"] for i in range(count)]
    # So the passage of the rule is as often the first as it is the last.
    first = at % count
    return near[first:] + near[:first]


async def right(engine: Engine, rules: list[dict[str, Any]], count: int, value: float) -> list[int]:
    """Return 1 for each question with a right answer, and 0 for the others."""
    llm = Marith(engine=engine, faithful=value, temperature=0, max_tokens=32)
    ask = get_response_synthesizer(llm=llm).asynthesize
    answers = await asyncio.gather(
        *(
            ask(
                rule["question"],
                nodes=[
                    NodeWithScore(node=TextNode(text=text), score=1.0)
                    for text in retrieved(rules, rule, count)
                ],
            )
            for rule in rules
        )
    )
    return [
        int(any(text.lower() in str(answer).lower() for text in rule["answers"]))
        for rule, answer in zip(rules, answers, strict=True)
    ]


async def main(model: str = "pocket", dtype: str | None = None, file: str | Path = RULES) -> None:
    rules = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    with Engine.load(model, dtype=dtype) as engine:
        for count in (1, 3):
            first: list[int] = []
            for value in VALUES:
                found = await right(engine, rules, count, value)
                first = first or found
                p = difference(first, found).p
                print(
                    f"passages {count}  faithful {value:<4}  right {sum(found)} of {len(found)}"
                    f"  p {p:.2g}",
                    flush=True,
                )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
