"""The commands that measure: `marith eval` with its commands, and `marith tune`.

Each command imports its evaluation when it runs, because evaluations import torch.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from marith import RequestError
from marith.cli.application import app, clear_errors, evals
from marith.cli.files import require_folder, require_writable
from marith.cli.options import (
    Imports,
    Model,
    Plot,
    Stops,
    defined,
    named_terms,
    pairs,
    placed,
    takes,
)

_FORMULAS = "A formula, NAME=FORMULA, or a persona file. Repeatable."
_DATA = "A .json, .jsonl or .csv file, or hub:owner/name:split."
Data = Annotated[str | None, typer.Option(help=_DATA)]
Column = Annotated[str | None, typer.Option(help="The text column of --data.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=VALUE", help="Use only these rows of --data. Repeatable."),
]
Formulas = Annotated[list[str] | None, typer.Option(metavar="TEXT", help=_FORMULAS)]
Count = Annotated[
    int | None,
    typer.Option("--n", help="The number of prompts, drawn by the seed.  [default: 200 or all]"),
]
Out = Annotated[
    Path | None, typer.Option(help="A folder for the results. Run the command again to resume.")
]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal texts, except for rounding.")]
Samples = Annotated[int, typer.Option(help="The number of texts for each formula and prompt.")]
Tokens = Annotated[int | None, typer.Option(help="The maximum number of tokens.")]
Temperature = Annotated[float, typer.Option(help="0 takes the likeliest token.")]
Frame = Annotated[
    str | None, typer.Option(help="A template around each prompt, with the placeholder {message}.")
]
_MEASURE = (
    "MODEL:LABEL of a classifier, perplexity, length, vader:positive, vader:negative, "
    "judge:PROVIDER/MODEL=CRITERION, or package.module:name of a function from a text to a number. "
    "NAME= before a measure names its column. Repeatable."
)
Measures = Annotated[list[str], typer.Option("--measure", metavar="MEASURE", help=_MEASURE)]
Judge = Annotated[
    str | None,
    typer.Option(help="MODEL:LABEL, or any other measure of `marith eval texts`."),
]
Classifier = Annotated[
    str | None, typer.Option(help="MODEL:LABEL of the classifier C in the formulas.")
]
_JUDGE = "A judge: ATTRIBUTE=MODEL:LABEL, happy=vader:positive, simple=length. Repeatable."
_THEIRS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Judges = Annotated[
    list[str] | None,
    typer.Option("--judge", metavar="ATTRIBUTE=JUDGE", help=_JUDGE),
]
Unknown = Annotated[
    str,
    typer.Argument(
        metavar="FORMULA", help="A formula with unknowns: 'M - a*union(toxic, M) + b*C'."
    ),
]
Ranges = Annotated[
    list[str],
    typer.Option("--range", metavar="NAME=LOW:HIGH", help="The range of an unknown. Repeatable."),
]
Attribute = Annotated[str, typer.Option(help="MODEL:LABEL, vader:positive or vader:negative.")]
Direction = Annotated[str, typer.Option(help="The direction of the attribute: down or up.")]
PerplexityLimit = Annotated[
    str,
    typer.Option("--perplexity-limit", help="The maximum, as a number or relative to M (1.2x)."),
]
Trials = Annotated[int, typer.Option(help="The number of trials; a larger number resumes --out.")]
Task = Annotated[str, typer.Option(help="The frame and terms: chat, toxicity or sentiment.")]
Prompts = Annotated[str | None, typer.Option("--prompts", "--data", help=_DATA)]


def evaluated(
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    n: Count = None,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Declare the options of the model and the prompts."""


def sampled(
    samples: Samples = 1, max_tokens: Tokens = None, temperature: Temperature = 1.0
) -> None:
    """Declare the options of the sampled texts."""


@evals.command()
@takes(evaluated, sampled, defined, placed)
def toxicity(
    formulas: Formulas = None,
    judge: Judge = None,
    classifier: Classifier = None,
    continues: Annotated[
        bool,
        typer.Option("--continue/--conversation", help="Continue the prompts, or answer them."),
    ] = False,
    frame: Frame = None,
    plot: Plot = None,
    **options: Any,
) -> None:
    """Measure toxicity and perplexity of detoxifying formulas: the paper's table."""
    own: dict[str, Any] = {
        "judge": judge,
        "classifier": classifier,
        "continues": continues,
        "frame": frame,
    }
    with clear_errors():
        from marith.evals.evaluations import ToxicityConfig, evaluate_toxicity  # torch

        evaluate_toxicity(ToxicityConfig(**settings(options, formulas, plot), **own)).show(
            options["out"], plot
        )


@evals.command()
@takes(evaluated, sampled, defined, placed)
def texts(
    measures: Measures,
    formulas: Formulas = None,
    frame: Frame = None,
    stop: Stops = None,
    plot: Plot = None,
    **options: Any,
) -> None:
    """Measure texts of formulas by classifiers, perplexity or your own functions."""
    own: dict[str, Any] = {"measures": measures, "frame": frame, "stop": stop or ()}
    with clear_errors():
        from marith.evals.evaluations import TextsConfig, evaluate_texts  # torch

        evaluate_texts(TextsConfig(**settings(options, formulas, plot), **own)).show(
            options["out"], plot
        )


@evals.command()
@takes(evaluated, sampled, defined, placed)
def sentiment(
    to: Annotated[str, typer.Option(help="The wanted tone: positive or negative.")],
    formulas: Formulas = None,
    judge: Judge = None,
    classifier: Classifier = None,
    plot: Plot = None,
    **options: Any,
) -> None:
    """Measure sentiment and perplexity of formulas that change it: the paper's two tables."""
    own: dict[str, Any] = {"to": to, "judge": judge, "classifier": classifier}
    with clear_errors():
        from marith.evals.evaluations import SentimentConfig, evaluate_sentiment  # torch

        evaluate_sentiment(SentimentConfig(**settings(options, formulas, plot), **own)).show(
            options["out"], plot
        )


@evals.command()
@takes(evaluated, defined, placed)
def perplexity(formulas: Formulas = None, **options: Any) -> None:
    """Measure the perplexity of given texts under formulas."""
    with clear_errors():
        from marith.evals.evaluations import EvaluationConfig, evaluate_perplexity  # torch

        evaluate_perplexity(EvaluationConfig(**settings(options, formulas))).show(options["out"])


@evals.command()
@takes(evaluated, sampled, defined, placed)
def attributes(
    only: Annotated[
        list[int] | None,
        typer.Option("--curve", metavar="NUMBER", help="Only this curve, 1 to 6. Repeatable."),
    ] = None,
    judges: Judges = None,
    classifier: Classifier = None,
    plot: Plot = None,
    **options: Any,
) -> None:
    """Measure how attributes follow their factors: the paper's six curves."""
    with clear_errors():
        from marith.evals.attributes import AttributesConfig, evaluate_attributes  # torch

        named = pairs("--judge", "ATTRIBUTE=MODEL:LABEL", judges)
        own: dict[str, Any] = {"only": tuple(only or ()), "classifier": classifier}
        own["judges"] = {attribute: judge.strip() for attribute, judge in named.items()}
        evaluate_attributes(AttributesConfig(**settings(options, None, plot), **own)).show(
            options["out"], plot
        )


@evals.command(context_settings=_THEIRS)
def harness(context: typer.Context, _imports: Imports = None) -> None:
    """Run lm-evaluation-harness on a formula, with the harness's own options."""
    with clear_errors():
        if find_spec("lm_eval") is None:
            raise RequestError("the harness is not installed: pip install 'marith[harness]'")
        from marith.evals.harness import command_line  # torch

        command_line.run(context.args)


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[str, typer.Option(help="Sections, separated by commas.")] = "table,lambda",
    prompts: Annotated[int, typer.Option(help="Texts per round.")] = 12,
    tokens: Annotated[int, typer.Option(help="The maximum number of tokens.")] = 64,
    rounds: Annotated[int, typer.Option(help="Rounds of the table.")] = 2,
    csv: Annotated[Path | None, typer.Option(help="Write all numbers to this file.")] = None,
    plot: Plot = None,
) -> None:
    """Measure what speculation saves: the paper's table, and its figure of calls per token by λ."""
    with clear_errors():
        from marith.console import check_plot
        from marith.evals.speed.savings import SavingsConfig, run  # torch

        asked = SavingsConfig(model, only.split(","), prompts, tokens, rounds)
        check_plot(plot)
        if plot is not None and "lambda" not in asked.sections:
            raise RequestError(f"--plot shows the section lambda, but --only is {only!r}")
        for path in (plot, csv):
            require_writable(path)
        run(asked).show(csv, plot)


@app.command()
@takes(evaluated, sampled, defined, placed)
def tune(
    formula: Unknown,
    ranges: Ranges,
    attribute: Attribute,
    direction: Direction,
    perplexity_limit: PerplexityLimit = "1.2x",
    trials: Trials = 30,
    task: Task = "chat",
    data: Prompts = None,
    frame: Frame = None,
    stop: Stops = None,
    **options: Any,
) -> None:
    """Find the numbers of FORMULA that change an attribute most while texts stay fluent."""
    own: dict[str, Any] = {
        "formula": formula, "attribute": attribute, "direction": direction,
        "perplexity_limit": perplexity_limit, "trials": trials, "task": task, "frame": frame,
        "stop": tuple(stop or ()),
    }  # fmt: skip
    with clear_errors():
        from marith.evals.tuning.tune import TuningConfig, run  # torch
        from marith.evals.tuning.unknowns import Range

        own["ranges"] = tuple(map(Range.read, ranges))
        run(TuningConfig(**settings({**options, "data": data}), **own)).show(options["out"])


def settings(
    options: Mapping[str, Any], formulas: Sequence[str] | None = None, plot: Path | None = None
) -> dict[str, Any]:
    """Return the options of a command as settings of an evaluation. Raises RequestError."""
    from marith.console import check_plot

    check_plot(plot)
    require_writable(plot)
    require_folder(options["out"])
    elsewhere = ("term", "define", "_imports")
    return {
        **{name: value for name, value in options.items() if name not in elsewhere},
        "where": pairs("--where", "COLUMN=VALUE", options["where"]),
        "formulas": tuple(formulas or ()),
        "terms": named_terms(options["term"], options["define"]),
    }
