"""Commands that measure: `marith eval` and what follows it, and `marith tune`."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from marith import RequestError
from marith.cli.options import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Imports,
    Model,
    Plot,
    Revision,
    Stops,
    Terms,
)
from marith.cli.shared import (
    app,
    clear_errors,
    evals,
    named_terms,
    pairs,
    require_folder,
    require_writable,
)

_FORMULAS = "NAME=FORMULA, or a TOML file of personas. Repeatable."
_DATA = "A .json, .jsonl or .csv file, or hub:owner/name:split."
Data = Annotated[str | None, typer.Option(help=_DATA)]
Column = Annotated[str | None, typer.Option(help="The column of --data with the texts.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=VALUE", help="Only these rows of --data. Repeatable."),
]
Formulas = Annotated[list[str] | None, typer.Option(metavar="TEXT", help=_FORMULAS)]
Count = Annotated[
    int | None,
    typer.Option("--n", help="How many prompts, drawn by the seed; else 200, or all."),
]
Out = Annotated[
    Path | None, typer.Option(help="A folder for all there is; the same command goes on in it.")
]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal texts, but for rounding.")]
Samples = Annotated[int, typer.Option(help="Texts of each formula for each prompt.")]
Tokens = Annotated[int | None, typer.Option(help="At most so many tokens a text.")]
Temperature = Annotated[float, typer.Option(help="0 takes the likeliest token.")]
Frame = Annotated[
    str | None, typer.Option(help="The text around a prompt; {message} marks its place.")
]
_MEASURE = (
    "MODEL:LABEL of a classifier, perplexity, length, vader:positive, vader:negative, "
    "judge:PROVIDER/MODEL=CRITERION, or package.module:name of a function from a text to a number; "
    "NAME= before it names its column. "
    "Repeatable."
)
Measures = Annotated[list[str], typer.Option("--measure", metavar="MEASURE", help=_MEASURE)]
Judge = Annotated[
    str | None,
    typer.Option(help="Any measure: MODEL:LABEL, vader:negative, package.module:name, …"),
]
Classifier = Annotated[
    str | None, typer.Option(help="MODEL:LABEL of the classifier C of the formulas.")
]
_JUDGE = "ATTRIBUTE=MODEL:LABEL; or happy=vader:positive, simple=length. Repeatable."
_THEIRS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Judges = Annotated[
    list[str] | None,
    typer.Option("--judge", metavar="ATTRIBUTE=JUDGE", help=_JUDGE),
]
Unknown = Annotated[
    str, typer.Argument(metavar="FORMULA", help="With unknowns: 'M - a*union(toxic, M) + b*C'.")
]
Ranges = Annotated[
    list[str],
    typer.Option("--range", metavar="NAME=LOW:HIGH", help="Of an unknown. Repeatable."),
]
Attribute = Annotated[
    str, typer.Option(help="MODEL:LABEL of a classifier, or vader:positive, vader:negative.")
]
Direction = Annotated[str, typer.Option(help="Where the attribute is to go: down or up.")]
Bound = Annotated[
    str, typer.Option("--perplexity-bound", help="At most so much, or 1.2x: times that of M.")
]
Trials = Annotated[int, typer.Option(help="So many assignments; more go on in the same --out.")]
Task = Annotated[
    str, typer.Option(help="How prompts are framed, and its terms: chat, toxicity or sentiment.")
]
Prompts = Annotated[str | None, typer.Option("--prompts", "--data", help=_DATA)]


@evals.command()
def toxicity(
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    formulas: Formulas = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    plot: Plot = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    judge: Judge = None,
    classifier: Classifier = None,
    continues: Annotated[
        bool,
        typer.Option("--continue/--conversation", help="Go on with the prompts, or answer them."),
    ] = False,
    frame: Frame = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Toxicity and perplexity of formulas that reduce it: the paper's table."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.evaluations import Toxicity, toxicity  # torch

        toxicity(Toxicity(**settings(options))).show(out, plot)


@evals.command()
def texts(
    measures: Measures,
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    formulas: Formulas = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    plot: Plot = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    frame: Frame = None,
    stop: Stops = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Any measures of the texts of formulas: classifiers, perplexity, functions of your own."""
    options = locals()  # all options by name
    options["stop"] = stop or ()
    with clear_errors():
        from marith.evals.evaluations import Texts, texts  # torch

        texts(Texts(**settings(options))).show(out, plot)


@evals.command()
def sentiment(
    to: Annotated[str, typer.Option(help="The tone that texts go on in: positive or negative.")],
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    formulas: Formulas = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    plot: Plot = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    judge: Judge = None,
    classifier: Classifier = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Sentiment and perplexity of formulas that turn it: the paper's two tables."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.evaluations import Sentiment, sentiment  # torch

        sentiment(Sentiment(**settings(options))).show(out, plot)


@evals.command()
def perplexity(
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    formulas: Formulas = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    seed: Seed = 0,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Perplexity of given texts under formulas."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.evaluations import FormulaEvaluation, perplexity  # torch

        perplexity(FormulaEvaluation(**settings(options))).show(out)


@evals.command()
def attributes(
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    plot: Plot = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    only: Annotated[
        list[int] | None,
        typer.Option("--curve", metavar="NUMBER", help="1 to 6: only this curve. Repeatable."),
    ] = None,
    judges: Judges = None,
    classifier: Classifier = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """How attributes follow their factors: the paper's six curves."""
    options = {**locals(), "formulas": None, "only": tuple(only or ())}  # all options by name
    with clear_errors():
        from marith.evals.attributes import Attributes, attributes  # torch

        named = pairs("--judge", "ATTRIBUTE=MODEL:LABEL", judges)
        options["judges"] = {attribute: judge.strip() for attribute, judge in named.items()}
        attributes(Attributes(**settings(options))).show(out, plot)


@evals.command(context_settings=_THEIRS)
def harness(context: typer.Context, _imports: Imports = None) -> None:
    """Run lm-evaluation-harness on a formula, by that program's own options."""
    with clear_errors():
        if find_spec("lm_eval") is None:
            raise RequestError("the harness is not installed: pip install 'marith[harness]'")
        from marith.evals.harness import command_line  # torch

        command_line.run(context.args)


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[str, typer.Option(help="Sections, with commas between them.")] = "table,lambda",
    prompts: Annotated[int, typer.Option(help="Texts in a round.")] = 12,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens of a text.")] = 64,
    rounds: Annotated[int, typer.Option(help="Rounds of the table of medians.")] = 2,
    csv: Annotated[Path | None, typer.Option(help="Write every number there is.")] = None,
    plot: Plot = None,
) -> None:
    """Measure what speculation saves: the paper's table, and its figure of calls a token by λ."""
    with clear_errors():
        from marith.evals.speed.savings import SavingsSettings, run  # torch
        from marith.showing import check_file, check_plot

        asked = SavingsSettings(model, only.split(","), prompts, tokens, rounds)
        check_file(csv)
        check_plot(plot)
        if plot is not None and "lambda" not in asked.sections:
            raise RequestError(f"a plot shows lambda, and --only is {only!r}")
        for path in (plot, csv):
            require_writable(path)
        run(asked).show(csv, plot)


@app.command()
def tune(
    formula: Unknown,
    ranges: Ranges,
    attribute: Attribute,
    direction: Direction,
    bound: Bound = "1.2x",
    trials: Trials = 30,
    task: Task = "chat",
    model: Model = "pocket",
    data: Prompts = None,
    column: Column = None,
    where: Where = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    frame: Frame = None,
    stop: Stops = None,
    n: Count = None,
    out: Out = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Find the numbers of FORMULA that move an attribute farthest while texts stay fluent."""
    options = {**locals(), "formulas": None, "stop": tuple(stop or ())}  # all options by name
    with clear_errors():
        from marith.evals.tuning.tune import Tuning, run  # torch
        from marith.evals.tuning.unknowns import Range

        options["ranges"] = tuple(map(Range.read, ranges))
        run(Tuning(**settings(options))).show(out)


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line as an evaluation's settings take them. Raises RequestError."""
    from marith.showing import check_plot

    check_plot(options.get("plot"))
    require_folder(options["out"])
    elsewhere = ("term", "define", "_imports", "plot")
    kept = {name: value for name, value in options.items() if name not in elsewhere}
    return {
        **kept,
        "where": pairs("--where", "COLUMN=VALUE", options["where"]),
        "formulas": tuple(options["formulas"] or ()),
        "terms": named_terms(options["term"], options["define"]),
    }
