"""Answers one question by six formulas, through the engine and each framework installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from marith.evals.metrics.text_classifier import attribute
from marith.options.options import Options

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
FRAMEWORKS = {
    "LangChain": "langchain_marith.demo_chain",
    "LlamaIndex": "llamaindex_marith.demo_query",
}
MAX_TOKENS = 90
TEMPERATURE = 0.3

Answer: TypeAlias = "Callable[[Options, str], str]"


def run(model: str, question: str, seed: int) -> None:
    """Generate the answers, show progress, and print them with their measured attributes."""
    console = Console()
    ways = {"Engine": by_engine, **by_frameworks(console)}
    options = Options(
        model=model, terms=dict(TERMS), temperature=TEMPERATURE, max_tokens=MAX_TOKENS, seed=seed
    )
    answers = _ask(ways, options, question, console)
    console.print(Text(f"\n{question}   (model {model}, seed {seed})", style="bold"))
    for way, texts in answers.items():
        console.print(_table(way, texts))


def by_frameworks(console: Console) -> dict[str, Answer]:
    """A function for each framework; for one that is not installed, a line is printed."""
    ways: dict[str, Answer] = {}
    for name, module in FRAMEWORKS.items():
        try:
            ways[name] = import_module(module).answer
        except ModuleNotFoundError as error:
            console.print(f"{name} is left out: {error.name} is not installed")
    return ways


def by_engine(options: Options, question: str) -> str:
    """The answer of the engine, without a framework."""
    return options.engine().submit(options.request(question)).result().text


def _ask(
    ways: Mapping[str, Answer], options: Options, question: str, console: Console
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
                answers[way].append(answer(options.over({"formula": formula}), question))
                progress.advance(bar)
    return answers


def _table(way: str, texts: list[str]) -> Table:
    table = Table(title=way, show_lines=True, expand=True)
    table.add_column("formula", ratio=3, overflow="fold")
    table.add_column("answer", ratio=5)
    scores = []
    for name, (model, label) in ATTRIBUTES.items():
        table.add_column(name, justify="right", min_width=6)
        scores.append(attribute(texts, model, label))
    for i, (formula, text) in enumerate(zip(FORMULAS, texts, strict=True)):
        table.add_row(formula, Text(text), *(f"{column[i]:.2f}" for column in scores))
    return table
