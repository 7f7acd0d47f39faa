"""Commands about one formula: `marith calibrate`, `show` and `demo`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from marith.cli.own_modules import Imports
from marith.cli.shared import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Model,
    Revision,
    Terms,
    app,
    clear_errors,
    lines,
    named_terms,
    note_unused,
    require_writable,
    write_or_print,
)
from marith.cli.terminal.colours import formula_colours
from marith.cli.terminal.loading_bar import loading
from marith.errors import RequestError, suggestion
from marith.formula.meaning.binding import BARE, names_in, resolve
from marith.formula.meaning.checking import check
from marith.formula.text.explaining import CLASSIFIER, explain
from marith.formula.text.files import FormulaFile, load_file
from marith.formula.text.term_data import read_terms
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula, Name

Prompts = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="What may be asked. Repeatable.")
]
PromptFile = Annotated[
    Path | None, typer.Option(help="A file with a prompt a line; - reads standard input.")
]
Costs = Annotated[
    str, typer.Option(help="time: measured on this machine; calls: one per call, as in the paper.")
]
Output = Annotated[Path | None, typer.Option(help="Write the plan to this file.")]


@app.command()
def calibrate(
    formula: Annotated[
        str, typer.Argument(metavar="FORMULA", help="The formula that is to be made fast.")
    ],
    prompt: Prompts = None,
    prompts: PromptFile = None,
    model: Model = "pocket",
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    costs: Costs = "time",
    output: Output = None,
) -> None:
    """Measure how far each term of FORMULA may lag, and print the plan as JSON."""
    with clear_errors():
        terms = named_terms(term, define)
        all_prompts = _given(prompt, prompts)
        if costs not in ("time", "calls"):
            raise RequestError(f"--costs is time or calls, not {costs!r}")
        check(parse(formula), resolve(terms))
        require_writable(output)
        from marith import Engine  # torch, which `show` does without
        from marith.cli.terminal.calibration import measured, table

        with loading(model):
            engine = Engine.load(
                model, device=device, dtype=dtype, revision=revision, backend=backend
            )
        with engine:
            plan = measured(
                engine, formula, all_prompts, terms, "calls" if costs == "calls" else "time"
            )
        table(plan, parse(formula), terms)
        write_or_print(plan.to_json(), output)


def _given(prompt: list[str] | None, prompts: Path | None) -> list[str]:
    """Return the prompts of both options. Raise RequestError where there is none."""
    if given := [*(prompt or ()), *lines(prompts)]:
        return given
    raise RequestError("a plan is measured on prompts: --prompt TEXT or --prompts FILE")


@app.command()
def show(
    formula: Annotated[
        str, typer.Argument(metavar="FORMULA", help="The formula, or the name of one in --file.")
    ],
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    file: Annotated[
        Path | None, typer.Option(help="A persona file (TOML), with its terms and formulas.")
    ] = None,
) -> None:
    """Draw FORMULA as a tree, with its normalised form and warnings. Loads no model."""
    with clear_errors(loads=False):
        given = named_terms(term, define)
        terms = read_terms(given)
        shown: str | Formula = formula
        if file is not None:
            personas = load_file(file)
            terms = {**personas.terms, **terms}
            shown = personas.formulas.get(formula) or _of_file(formula, file, personas, terms)
        typer.echo(formula_colours(explain(shown, terms or None)))
        note_unused(shown, terms, given)
        if not terms:
            _note_undefined(parse(shown))


def _of_file(text: str, file: Path, personas: FormulaFile, terms: Mapping[str, object]) -> Formula:
    """A formula over the terms of a file. Raises RequestError for a name that is in no table."""
    formula = parse(text)
    if isinstance(formula, Name) and formula.name not in {BARE, *terms}:
        named = ", ".join(personas.formulas) or "none"
        hint = suggestion(text, [*personas.formulas, *terms], f"; its formulas are {named}")
        raise RequestError(f"{str(file)!r} has no formula and no term {text!r}{hint}")
    return formula


def _note_undefined(formula: Formula) -> None:
    """Say on standard error which names of a formula without terms have no meaning yet."""
    names = {*names_in(formula)} - {BARE}
    prompts, classifiers = sorted(names - {CLASSIFIER}), sorted(names & {CLASSIFIER})
    shown = [f"{', '.join(prompts)} (shown as system prompts)"] if prompts else []
    shown += [f"{name} (shown as a classifier)" for name in classifiers]
    if shown:
        typer.echo(f"not defined: {', '.join(shown)}; --term NAME=PROMPT defines one", err=True)


@app.command()
def demo(
    model: Model = "pocket",
    question: Annotated[
        str | None, typer.Option(help="What the persona answers, and with --full six formulas.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of the replies that are sampled to be measured.")
    ] = 0,
    full: Annotated[
        bool, typer.Option("--full", help="Print all replies, and six formulas with measures.")
    ] = False,
) -> None:
    """Show answers before and after formulas, measured, in one screen.

    The engine gives them, then LangChain and LlamaIndex where they are installed. Another model
    than pocket shows a persona by degrees and an answer from a passage.
    """
    with clear_errors():
        from marith.demo import run  # torch, which `show` does without

        run(model, question, seed, full)
