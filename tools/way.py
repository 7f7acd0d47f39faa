"""Print how much a token, and a chat call, cross: calls, functions, files and rooms.

Run as `make way`; `python -m tools.way --files` lists the files in the order of first
entry, too. Tokens are made over a model of two layers, and counted on the engine's thread; the
chat call is counted in the caller's. What the first texts and calls load and learn is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from langchain_marith import ChatMarith
from marith import Engine, NGram, Plan, Sampling, Stop
from marith.testing import tiny_model, tiny_tokenizer
from tools.calls import CallTrace, Recorder

WORDS = tuple(f"word{i}" for i in range(300))
PROMPT = WORDS[0]
FORMULA, TERMS = "0.5*M + 0.5*other", {"other": "word4 word5"}
TOKENS = 40  # so few that the cache need not grow
INNER = slice(4, -1)  # rounds of a text, without those that read the prompt, learn, or end it
ATTEMPTS = 20
COLUMNS = ("calls", "functions", "files", "rooms", "switches")


@dataclass(frozen=True, slots=True)
class Case:
    """Texts of one kind: how they are made, and whether tokens are drafted for them."""

    name: str
    speculation: Plan | Literal["auto"] | None
    drafted: bool
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table, and the trace that it counts."""

    name: str
    trace: CallTrace

    @property
    def figures(self) -> tuple[int, ...]:
        """The line's numbers, in the order of `COLUMNS`."""
        trace = self.trace
        return trace.calls, trace.functions, len(trace.files), len(trace.entries), trace.switches


def tokens() -> Iterator[Line]:
    """The inner rounds of three texts: plain, adaptive without a draft, and with a draft."""
    model = tiny_model(vocab=len(WORDS) + 2, sharpness=0.5)
    recorder = Recorder()
    with recorder.new_threads():
        engine = Engine.load(model, tokenizer=tiny_tokenizer(WORDS))
    with engine:
        cases = (
            Case("a plain token", None, drafted=False),
            Case("a token under auto, nothing drafted", "auto", drafted=False),
            Case("a round with drafted tokens", _plan(engine), drafted=True, temperature=0.0),
        )
        for case in cases:
            rounds = sorted(_rounds(engine, recorder, case), key=lambda trace: trace.calls)
            median, long = rounds[len(rounds) // 2], rounds[len(rounds) * 9 // 10]
            yield Line(case.name, median)
            if long.calls > median.calls:
                yield Line("… longer in one round of ten", long)


def chat() -> Line:
    """A streamed chat call over pocket, with a tool that it has to call, in the caller's thread."""

    def weather(city: str) -> str:
        """What the weather is like in a city."""
        return city

    chat = ChatMarith(formula=FORMULA, terms=TERMS, temperature=0.0)
    model = chat.bind_tools([weather], tool_choice="any")
    for city in ("Rome", "Oslo"):
        list(model.stream(f"What is the weather in {city}?"))
    with Recorder().this_thread() as call:
        list(model.stream("What is the weather in Paris?"))
    return Line("a chat call with tools", CallTrace.of([call]))


def _plan(engine: Engine) -> Plan:
    """A plan whose draft is right about most words of the likeliest text, and wrong about some."""
    likeliest = engine.generate(
        PROMPT, FORMULA, TERMS, Sampling(temperature=0), Stop(TOKENS), None
    ).tokens
    text = [WORDS[token - 2] if i % 5 else PROMPT for i, token in enumerate(likeliest)]
    return Plan.drafts(NGram(texts=(" ".join(text),), order=3))


def _rounds(engine: Engine, recorder: Recorder, case: Case) -> list[CallTrace]:
    """The inner rounds of the first whole text, but one, with drafts or without as the case is."""
    warm = False
    for seed in range(ATTEMPTS):
        before = len(recorder.rounds())
        sampling = Sampling(case.temperature, seed=seed)
        made = engine.generate(PROMPT, FORMULA, TERMS, sampling, Stop(TOKENS), case.speculation)
        if len(made.tokens) == TOKENS and (made.stats.drafted > 0) is case.drafted:
            rounds = recorder.rounds()[before:][INNER]
            if warm and rounds:
                return rounds
            warm = True
    raise RuntimeError(f"no round of {ATTEMPTS} texts shows {case.name}")


def main(
    files: Annotated[bool, typer.Option("--files", help="List the files, as entered.")] = False,
    rooms: Annotated[bool, typer.Option("--rooms", help="Say how often each is entered.")] = False,
) -> None:
    """Print the table; for each line, on demand, its files and its rooms."""
    lines = [*tokens(), chat()]
    table = Table("crossed by", *COLUMNS)
    for line in lines:
        table.add_row(line.name, *map(str, line.figures))
    console = Console(width=100)
    console.print(table)
    for line in lines:
        if files:
            console.print(f"\n{line.name}:", *line.trace.files, sep="\n  ", highlight=False)
        if rooms:
            entered = ", ".join(f"{room} {count}" for room, count in line.trace.entries.items())
            console.print(f"\n{line.name}: {entered}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
