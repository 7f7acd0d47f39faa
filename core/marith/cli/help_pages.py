"""The help pages of the commands: their order, and an example below each."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getdoc
from typing import Any

import typer

EXAMPLES: Mapping[str, str] = {
    "generate": (
        'marith generate "How do I boil an egg?" --formula "2*chef - M" '
        '--term chef="You are a chef."'
    ),
    "why": (
        'marith why "How do I boil an egg?" --formula "2*chef - M" --term chef="You are a chef."'
    ),
    "chat": 'marith chat --formula "2*chef - M" --term chef="You are a chef."',
    "play": "marith play marith.toml",
    "serve": "marith serve marith.toml --port 8000",
    "calibrate": (
        'marith calibrate "0.5*M + 0.5*chef" --term chef="You are a chef." '
        '--prompt "How do I boil an egg?" --output plan.json'
    ),
    "show": 'marith show "M - 0.96*union(toxic, M)"',
    "models": "marith models",
    "recipes": "marith recipes dexperts cfg",
    "demo": 'marith demo --question "What is a good present for a child?"',
    "train-classifier": (
        "marith train-classifier --base pocket-toxicity --data rows.csv --out classifiers/formal"
    ),
    "train-vector": (
        'marith train-vector --positive "Act as if you are extremely happy." '
        '--negative "Act as if you are extremely sad." --out happy.gguf'
    ),
    "tune": (
        'marith tune "M - a*union(toxic, M)" --range a=0:1 --attribute pocket-toxicity:toxic '
        "--direction down --out tuned"
    ),
    "eval texts": (
        "marith eval texts --measure pocket-formality:formal --formulas M "
        '--formulas "2*formal - M" --term "formal=Speak formally." --n 20'
    ),
    "eval toxicity": "marith eval toxicity --n 20 --out toxicity",
    "eval sentiment": "marith eval sentiment --to positive --n 20 --out sentiment",
    "eval perplexity": "marith eval perplexity --n 20 --formulas M",
    "eval attributes": "marith eval attributes --curve 1 --n 10 --out curves",
    "eval harness": (
        "marith eval harness --model marith --model_args model=pocket --tasks arc_easy --limit 10"
    ),
    "eval speed": "marith eval speed --only table --rounds 3",
}


def complete_help(commands: typer.Typer, prefix: str = "") -> None:
    """Set the order, the example and the first sentence of each command.

    `prefix` is the name of a group. typer would cut the first sentence in lists of commands.
    """
    order = {name: place for place, name in enumerate(EXAMPLES)}
    for command in commands.registered_commands:
        paragraph = (getdoc(command.callback) or "").partition("\n\n")[0]
        command.short_help = " ".join(paragraph.split())
        if example := EXAMPLES.get(_full_name(command, prefix)):
            command.epilog = f"\b\nExample:\n  {example}"  # \b keeps the lines as they are
    commands.registered_commands.sort(key=lambda c: order.get(_full_name(c, prefix), len(order)))


def _full_name(command: Any, prefix: str) -> str:
    name = command.name or command.callback.__name__.replace("_", "-")
    return f"{prefix} {name}".strip()
