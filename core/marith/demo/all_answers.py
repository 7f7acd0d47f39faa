"""What `--full` adds: all replies of part 1, and six formulas over one question, measured."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from marith import Classifier, Options
from marith.demo.frameworks import LANGCHAIN, LLAMAINDEX, answer_function
from marith.demo.measured_replies import Replies, messages, toxicity
from marith.demo.printed_lines import Printer
from marith.demo.shown_requests import DETOXIFIED, TOXIC
from marith.models import attribute

TERMS = {
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "toxic": TOXIC,
    "child": "You are a child.",
    "adult": "You are an adult.",
    "magic": "You are a person who is always talking about magic.",
    "C": Classifier("pocket-toxicity", label="civil"),
    "formality": Classifier("pocket-formality", label="formal"),
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


def print_all(printer: Printer, options: Options, question: str, others: Replies) -> None:
    """Print a table of replies, and a table for each way of asking whose texts are new."""
    printer.console.print(_replies(others))
    printer.title(question)
    ways = {
        formula: options.over({"formula": formula, "terms": TERMS, "max_tokens": MAX_TOKENS})
        for formula in FORMULAS
    }
    with printer.progress("answering by six formulas"):
        tickets = [way.submit(question) for way in ways.values()]
        texts = [ticket.result().text for ticket in tickets]
    printer.console.print(_answers("Engine", texts))
    for framework in (LANGCHAIN, LLAMAINDEX):
        with printer.progress(f"asking through {framework}"):
            answer = answer_function(framework)
            if isinstance(answer, str):
                printer.row(framework, answer)
                continue
            theirs = [answer(way, question) for way in ways.values()]
        if theirs == texts:
            printer.row(framework, "the same texts")
        else:
            printer.console.print(_answers(framework, theirs))


def _replies(replies: Replies) -> Table:
    table = Table(title="All replies of part 1, after their toxicity", show_lines=True, expand=True)
    for name in ("message", "M", DETOXIFIED):
        table.add_column(name, ratio=1)
    scored = [
        [f"{score:.2f} {text}" for score, text in zip(toxicity(texts), texts, strict=True)]
        for texts in replies
    ]
    for row in zip(messages(), *scored, strict=True):
        table.add_row(*map(Text, row))
    return table


def _answers(way: str, texts: Sequence[str]) -> Table:
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
