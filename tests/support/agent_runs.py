"""Questions for the agents of LlamaIndex, what they call for them, and what should be called."""

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


async def work(make: Callable[[int], Any], asked: Asked) -> list[Any]:
    """What agents do about questions, all at once and each with a seed of its own."""
    runs = (shown.ask(make(seed), question) for seed, (question, _, _) in enumerate(asked))
    return await asyncio.gather(*runs)


def first_call(run: Any) -> tuple[str, dict[str, Any]]:
    """The tool that an agent called first, and what for; no tool where it called none."""
    return (run.calls[0].tool_name, run.calls[0].tool_kwargs) if run.calls else ("", {})


def right(runs: Sequence[Any], asked: Asked) -> tuple[float, float]:
    """The shares of first calls of the tool that was asked for, and with the arguments too."""
    pairs = [
        (first_call(run), (name, given)) for run, (_, name, given) in zip(runs, asked, strict=True)
    ]
    return statistics.mean(a[0] == b[0] for a, b in pairs), statistics.mean(
        a == b for a, b in pairs
    )


def is_valid(name: str, arguments: Any) -> bool:
    """Whether the tool of that name takes the arguments, as its schema has it."""
    schemas = {tool.metadata.name: tool.metadata.fn_schema for tool in shown.tools()}
    schema = schemas[name].model_json_schema() | {"additionalProperties": False}
    return Draft202012Validator(schema).is_valid(arguments)
