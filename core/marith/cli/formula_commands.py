"""The commands about one formula: `marith calibrate`, `show` and `demo`."""

from collections.abc import Collection, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith import Explanation, Formula, Options, RequestError, parse
from marith.cli.application import app, clear_errors
from marith.cli.files import lines, require_writable, write_or_print
from marith.cli.generate_command import load, read_options
from marith.cli.options import BARE, Model, Over, defined, named_terms, note_unused, placed, takes
from marith.errors import suggestion

if TYPE_CHECKING:
    from marith import PersonaFile, Plan

CLASSIFIER = "C"  # the name of a classifier in the paper's formulas
Prompts = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="A prompt to measure on. Repeatable.")
]
PromptFile = Annotated[
    Path | None, typer.Option(help="A file of prompts, one per line; - is standard input.")
]
Costs = Annotated[
    str, typer.Option(help="time (measured here), or calls (1 per call, as in the paper).")
]
Output = Annotated[Path | None, typer.Option(help="Write the plan to this file.")]


@app.command()
@takes(defined, placed)
def calibrate(
    formula: Annotated[str, typer.Argument(metavar="FORMULA", help="The formula.")],
    prompt: Prompts = None,
    prompts: PromptFile = None,
    model: Model = "pocket",
    costs: Costs = "time",
    output: Output = None,
    **options: Any,
) -> None:
    """Measure the cheapest speculation plan for FORMULA, and print it as JSON."""
    with clear_errors():
        all_prompts = _prompts(prompt, prompts)
        if costs not in ("time", "calls"):
            raise RequestError(f"--costs must be time or calls, not {costs!r}")
        values = {name: options[name] for name in signature(placed).parameters}
        values |= {"model": model, "formula": formula}
        values["terms"] = named_terms(options["term"], options["define"])
        measured = {name: value for name, value in values.items() if value is not None}
        require_writable(output)
        plan = _measured(read_options(None, None, measured), all_prompts, costs)
        write_or_print(plan.to_json(), output)


def _measured(options: "Options", prompts: Sequence[str], costs: Any) -> "Plan":
    """Return the plan of a formula. Standard error shows the elapsed and the remaining time."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from marith.console import bars, counted

    engine = load(options)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with bars(*columns, TimeRemainingColumn(), everywhere=True) as progress:
        bar = progress.add_task(f"calibrating on {counted(len(prompts), 'prompt')}", total=1.0)
        return engine.calibrate(
            options.formula,
            prompts,
            options.terms,
            costs,
            lambda share: progress.update(bar, completed=share),
        )


def _prompts(prompt: list[str] | None, prompts: Path | None) -> list[str]:
    """Return the prompts of both options. Raises RequestError without a prompt."""
    if every := [*(prompt or ()), *lines(prompts)]:
        return every
    raise RequestError("a plan is measured on prompts: write --prompt TEXT or --prompts FILE")


@app.command()
@takes(defined)
def show(
    formula: Annotated[
        str,
        typer.Argument(metavar="FORMULA", help="A formula, or the name of a formula in --file."),
    ],
    file: Annotated[Path | None, typer.Option(help="A persona file (TOML).")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Compare the tokens of other models with this one's."),
    ] = None,
    over: Over = None,
    **options: Any,
) -> None:
    """Draw FORMULA as a tree, with its normalised form and warnings. Loads no model."""
    with clear_errors():
        if over not in (None, "tokens", "bytes"):
            raise RequestError(f"--over must be tokens or bytes, not {over!r}")
        own = named_terms(options["term"], options["define"])
        terms: dict[str, Any] = own
        shown: str | Formula = formula
        if file is not None:
            # The file is read through `Options`, which also checks the options in it.
            read = Options.from_file(file)
            personas, over = read.file, over or read.over
            assert personas is not None, "these options are made from a file"
            terms = {**personas.terms, **own}
            shown = personas.formulas.get(formula) or _of_file(formula, file, personas, terms)
        explanation = Explanation.of(shown, terms or None)
        typer.echo(str(explanation))
        if over == "bytes":
            typer.echo("vocabulary:   the bytes, which all models share")
        elif model is not None:
            from marith.models import compare_terms

            for sentence in compare_terms(shown, terms, model):
                typer.echo(f"vocabulary:   {sentence}")
        note_unused(shown, terms, own)
        if not terms:
            _note_undefined({*explanation.names} - {BARE})


def _of_file(text: str, file: Path, personas: "PersonaFile", terms: Collection[str]) -> Formula:
    """Parse a formula over the terms of a file. Raises RequestError for an unknown name."""
    if text.strip().isidentifier() and text.strip() not in {BARE, *terms}:
        named = ", ".join(personas.formulas) or "none"
        hint = suggestion(text, [*personas.formulas, *terms], f"; its formulas are {named}")
        raise RequestError(f"{str(file)!r} has no formula and no term {text!r}{hint}")
    return parse(text)


def _note_undefined(names: Collection[str]) -> None:
    """Print on standard error the names of a formula that have no definition."""
    prompts = sorted({*names} - {CLASSIFIER})
    shown = [f"{', '.join(prompts)} (shown as system prompts)"] if prompts else []
    shown += [f"{CLASSIFIER} (shown as a classifier)"] if CLASSIFIER in names else []
    if shown:
        typer.echo(f"not defined: {', '.join(shown)}; --term NAME=PROMPT defines one", err=True)


@app.command()
def demo(
    model: Model = "pocket",
    question: Annotated[str | None, typer.Option(help="The question to the persona.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the measured replies.")] = 0,
) -> None:
    """Show answers without and with formulas, and their measures, on one screen.

    The engine answers first, then LangChain and LlamaIndex if they are installed. A model other
    than pocket shows a persona and an answer from a passage.
    """
    with clear_errors():
        # This imports torch, which `show` does not need.
        from marith.demo import run

        run(model, question, seed)
