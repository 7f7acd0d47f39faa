"""Questions for agents of LlamaIndex, the calls that agents make, and the calls that are right."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from support.applications import application

shown = application("llamaindex_agents")
CITIES = ("Lisbon", "Oslo", "Quito", "Vienna", "Zagreb", "Kyoto")
NAMES = ("Maria", "Tom", "Anna", "Layla", "Omar", "Ines")
TOPICS = ("pandas", "bees", "volcanoes", "comets", "cats", "trains", "penguins", "lions")
WEATHER = [
    (f"Can you check the weather in {city}?", "check_weather", {"city": city}) for city in CITIES
]
TABLES = [
    (f"Book a table for {name} with count {count}.", "book_table", {"name": name, "count": count})
    for count, name in enumerate(NAMES, 2)
]
FACTS = [(f"Find facts for '{topic}'.", "find_facts", {"title": topic}) for topic in TOPICS]
ASKED = [*WEATHER, *TABLES]
Asked = Sequence[tuple[str, str, dict[str, Any]]]


async def runs_of(make: Callable[[int], Any], asked: Asked) -> list[Any]:
    """Run an agent on all questions at once, with a seed for each question, and return the runs."""
    runs = (shown.ask(make(seed), question) for seed, (question, _, _) in enumerate(asked))
    return await asyncio.gather(*runs)


def first_call(run: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of an agent's first call, or an empty name."""
    return (run.calls[0].tool_name, run.calls[0].tool_kwargs) if run.calls else ("", {})


def shares_of_right_calls(runs: Sequence[Any], asked: Asked) -> tuple[float, float]:
    """Return the share of first calls with the right tool, and with the right arguments too."""
    pairs = [
        (first_call(run), (name, given)) for run, (_, name, given) in zip(runs, asked, strict=True)
    ]
    return statistics.mean(a[0] == b[0] for a, b in pairs), statistics.mean(
        a == b for a, b in pairs
    )


def is_valid(name: str, arguments: Any) -> bool:
    """Return True if a tool accepts the arguments, by its schema."""
    schemas = {tool.metadata.name: tool.metadata.fn_schema for tool in shown.tools()}
    schema = schemas[name].model_json_schema() | {"additionalProperties": False}
    return Draft202012Validator(schema).is_valid(arguments)
