"""Commands that evaluate: `eval texts`, `toxicity`, `sentiment`, `perplexity` and `examples`."""

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
    Revision,
    Stops,
    Terms,
    clear_errors,
    evals,
    named_terms,
    pairs,
)

_FORMULAS = "NAME=FORMULA, a file with one a line, or a TOML file of personas. Repeatable."
Data = Annotated[
    str | None,
    typer.Option(help="A .csv, .jsonl, .parquet or .txt file, a folder, or hub:owner/name/file."),
]
Column = Annotated[str | None, typer.Option(help="The column of --data with the texts.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=VALUE", help="Only these rows of --data. Repeatable."),
]
Formulas = Annotated[list[str] | None, typer.Option(metavar="TEXT", help=_FORMULAS)]
Count = Annotated[
    int | None,
    typer.Option("--n", help="So many, drawn by the seed; else 200 (examples: 4), or all."),
]
Out = Annotated[
    Path | None, typer.Option(help="A folder for all there is; the same command goes on in it.")
]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal texts, but for rounding.")]
Samples = Annotated[int, typer.Option(help="Texts of each formula for each prompt.")]
Tokens = Annotated[int | None, typer.Option(help="At most so many tokens a text.")]
Temperature = Annotated[float, typer.Option(help="0 takes the likeliest token.")]
Actors = Annotated[
    int | None,
    typer.Option(
        "--ray", metavar="ACTORS", help="So many processes of a cluster of Ray make the texts."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before a very long run.")]
Frame = Annotated[
    str | None, typer.Option(help="The text around a prompt; {message} marks its place.")
]
_MEASURE = (
    "MODEL:LABEL of a classifier, perplexity, length, vader:positive, vader:negative, or "
    "package.module:name of a function; NAME= before it names its column. Repeatable."
)
Measures = Annotated[list[str], typer.Option("--measure", metavar="MEASURE", help=_MEASURE)]
Directions = Annotated[
    list[str] | None,
    typer.Option(
        "--direction",
        metavar="up|down",
        help="What is better, up or down: once for all measures, or once for each.",
    ),
]
Judge = Annotated[
    str | None, typer.Option(help="A classifier: a directory or hub id; or vader, a lexicon.")
]
JudgeLabel = Annotated[str | None, typer.Option(help="The label of --judge that is measured.")]
Classifier = Annotated[str | None, typer.Option(help="The classifier C of the formulas.")]
ClassifierLabel = Annotated[str | None, typer.Option(help="The label that C makes likelier.")]


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
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    judge: Judge = None,
    judge_label: JudgeLabel = None,
    classifier: Classifier = None,
    classifier_label: ClassifierLabel = None,
    continues: Annotated[
        bool,
        typer.Option("--continue/--conversation", help="Go on with the prompts, or answer them."),
    ] = False,
    frame: Frame = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    ray: Actors = None,
    yes: Yes = False,
) -> None:
    """Toxicity and perplexity of formulas that reduce it: the paper's table."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.paper import toxicity as evaluation  # torch, which `show` does without

        evaluation.run(evaluation.Settings(**settings(options)), ask=not yes).report().show(out)


@evals.command()
def texts(
    measure: Measures,
    direction: Directions = None,
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
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    frame: Frame = None,
    stop: Stops = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    ray: Actors = None,
    yes: Yes = False,
) -> None:
    """Any measures of the texts of formulas: classifiers, perplexity, functions of your own."""
    options = locals()  # all options by name
    options |= {"measures": options.pop("measure"), "directions": options.pop("direction") or ()}
    options["stop"] = stop or ()
    with clear_errors():
        from marith.evals import text_evaluation as evaluation  # torch, which `show` does without

        evaluation.run(evaluation.Settings(**settings(options)), ask=not yes).show(out)


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
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    judge: Judge = None,
    judge_label: JudgeLabel = None,
    classifier: Classifier = None,
    classifier_label: ClassifierLabel = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    ray: Actors = None,
    yes: Yes = False,
) -> None:
    """Sentiment and perplexity of formulas that turn it: the paper's two tables."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.paper import sentiment as evaluation  # torch, which `show` does without

        evaluation.run(evaluation.Settings(**settings(options)), ask=not yes).report().show(out)


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
    """Perplexity of texts under formulas; --data may be the folder of another evaluation."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals import perplexity as evaluation  # torch, which `show` does without

        evaluation.run(evaluation.Settings(**settings(options))).report().show(out)


@evals.command()
def examples(
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
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    ray: Actors = None,
    yes: Yes = False,
) -> None:
    """Answers of formulas to the same prompts, side by side."""
    options = locals()  # all options by name
    with clear_errors():
        from marith.evals.paper import examples as evaluation  # torch, which `show` does without

        evaluation.run(evaluation.Settings(**settings(options)), ask=not yes).show(out)


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line as an evaluation's settings take them. Raises RequestError."""
    elsewhere = ("term", "define", "_imports", "yes")
    kept = {name: value for name, value in options.items() if name not in elsewhere}
    return {
        **kept,
        "where": pairs("--where", "COLUMN=VALUE", options["where"]),
        "formulas": tuple(options["formulas"] or ()),
        "terms": named_terms(options["term"], options["define"]),
    }
