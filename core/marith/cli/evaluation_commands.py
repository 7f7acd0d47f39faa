"""Commands that evaluate: `eval texts`, `toxicity`, `sentiment` and `perplexity`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from marith.cli.own_modules import Imports
from marith.cli.shared import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Model,
    Plot,
    Revision,
    Stops,
    Terms,
    clear_errors,
    evals,
    named_terms,
    pairs,
    require_folder,
)
from marith.showing import check_plot

_FORMULAS = "NAME=FORMULA, or a TOML file of personas. Repeatable."
Data = Annotated[
    str | None,
    typer.Option(help="A .json, .jsonl or .csv file, or hub:owner/name:split."),
]
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
    measure: Measures,
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
    options["measures"] = options.pop("measure")
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


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line as an evaluation's settings take them. Raises RequestError."""
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
