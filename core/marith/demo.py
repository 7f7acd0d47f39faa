"""One question, six formulas: by the engine, then through each framework that is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from marith.decoding.sampling import Sampling
from marith.decoding.stopping import Stop
from marith.engine.engine import Engine
from marith.evals.measures import attribute

TERMS: Mapping[str, str] = {
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "toxic": (
        "The following conversation is one that perpetuates negative stereotypes, is threatening "
        "or sexually explicit and contains profane language."
    ),
    "child": "You are a child.",
    "adult": "You are an adult.",
    "magic": "You are a person who is always talking about magic.",
    "C": 'classifier("pocket-toxicity", label="civil")',
    "formality": 'classifier("pocket-formality", label="formal")',
}
FORMULAS = (
    "M",
    "formal",
    "2*formal - M",
    "M - 0.96*union(toxic, M)",
    "M - 0.96*union(toxic, M) + 0.04*C",
    "child - 0.6*adult + formality + 2*union(child, magic)",
)
ATTRIBUTES = {
    "formal": ("pocket-formality", "formal"),
    "toxic": ("pocket-toxicity", "toxic"),
    "positive": ("pocket-sentiment", "positive"),
}
MAX_TOKENS = 90
TEMPERATURE = 0.7

Answer: TypeAlias = "Callable[[str, str, str, Mapping[str, str], int], str]"


def run(model: str, question: str, seed: int) -> None:
    """Ask, show progress, and print the answers side by side with their measured attributes."""
    console = Console()
    ways: dict[str, Answer] = {"Engine": by_engine}
    for entry in sorted(entry_points(group="marith.demos"), key=lambda entry: entry.name):
        try:
            ways[entry.name] = entry.load()
        except ModuleNotFoundError as error:
            console.print(f"{entry.name} is left out: {error.name} is not installed")
    answers = _ask(ways, model, question, seed, console)
    console.print(Text(f"\n{question}   (model {model}, seed {seed})", style="bold"))
    for way, texts in answers.items():
        console.print(_table(way, texts))


def by_engine(model: str, question: str, formula: str, terms: Mapping[str, str], seed: int) -> str:
    """The engine's own answer."""
    engine = Engine.shared(model)
    sampling = Sampling(temperature=TEMPERATURE, seed=seed)
    return engine.generate(question, formula, terms, sampling, Stop(MAX_TOKENS)).text


def _ask(
    ways: Mapping[str, Answer], model: str, question: str, seed: int, console: Console
) -> dict[str, list[str]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    answers: dict[str, list[str]] = {}
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("asking", total=len(ways) * len(FORMULAS))
        for way, answer in ways.items():
            answers[way] = []
            for formula in FORMULAS:
                progress.update(bar, description=f"{way}: {formula}"[:48].ljust(48))
                answers[way].append(answer(model, question, formula, TERMS, seed))
                progress.advance(bar)
    return answers


def _table(way: str, texts: list[str]) -> Table:
    table = Table(title=way, show_lines=True, expand=True)
    table.add_column("formula", ratio=2)
    table.add_column("answer", ratio=5)
    scores = []
    for name, (model, label) in ATTRIBUTES.items():
        table.add_column(name, justify="right", min_width=8)
        scores.append(attribute(texts, model, label))
    for i, (formula, text) in enumerate(zip(FORMULAS, texts, strict=True)):
        table.add_row(formula, Text(text), *(f"{column[i]:.2f}" for column in scores))
    return table
