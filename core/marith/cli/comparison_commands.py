"""Commands that compare: `marith eval attributes`, `judge` and `harness`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from marith.cli.evaluation_commands import (
    Actors,
    Column,
    Count,
    Data,
    Out,
    Samples,
    Seed,
    Temperature,
    Tokens,
    Where,
    Yes,
    settings,
)
from marith.cli.own_modules import Imports
from marith.cli.shared import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Model,
    Revision,
    Terms,
    clear_errors,
    evals,
    pairs,
)
from marith.errors import RequestError

_JUDGE = "ATTRIBUTE=MODEL:LABEL; or happy=vader:positive, simple=length. Repeatable."
_THEIRS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Judges = Annotated[
    list[str] | None,
    typer.Option("--judge", metavar="ATTRIBUTE=JUDGE", help=_JUDGE),
]
Texts = Annotated[
    list[Path],
    typer.Option(
        metavar="PATH", help="The --out of an evaluation, or its texts.jsonl. Repeatable."
    ),
]
Baseline = Annotated[
    list[str], typer.Option(metavar="NAME", help="A formula of it, by name. Repeatable.")
]
Against = Annotated[
    list[str],
    typer.Option(
        metavar="NAME", help="A formula that is compared with the baseline, by name. Repeatable."
    ),
]


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
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    only: Annotated[
        list[int] | None,
        typer.Option("--curve", metavar="NUMBER", help="1 to 6: only this curve. Repeatable."),
    ] = None,
    judges: Judges = None,
    classifier: Annotated[str | None, typer.Option(help="MODEL:LABEL of the classifier C.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    ray: Actors = None,
    yes: Yes = False,
) -> None:
    """How attributes follow their factors: the paper's six curves."""
    options = {**locals(), "formulas": None, "only": tuple(only or ())}  # all options by name
    with clear_errors():
        from marith.evals.paper.attributes import fine_control  # torch, which `show` does without

        named = pairs("--judge", "ATTRIBUTE=MODEL:LABEL", judges)
        options["judges"] = {attribute: judge.strip() for attribute, judge in named.items()}
        chosen = fine_control.CurveSettings(**settings(options))
        fine_control.run(chosen, ask=not yes).report().show(out)


@evals.command()
def judge(
    texts: Texts,
    baseline: Baseline,
    against: Against,
    task: Annotated[
        str, typer.Option(help="What texts are judged on: toxicity, positive or negative.")
    ],
    judge_model: Annotated[
        str, typer.Option(help="PROVIDER:MODEL, a chat model of LangChain's, or marith:MODEL.")
    ],
    n: Annotated[int | None, typer.Option("--n", help="Only the first so many pairs.")] = None,
    seed: Annotated[int, typer.Option(help="Draws which text of a pair is shown first.")] = 0,
    together: Annotated[int, typer.Option(help="Number of pairs judged at once.")] = 8,
    out: Out = None,
) -> None:
    """Have a chat model compare the texts of formulas, two at a time, as the paper's GPT-4 did."""
    with clear_errors():
        from marith.evals.preference import comparison, judge_models  # torch

        comparison_settings = comparison.ComparisonSettings(
            texts=tuple(texts),
            baseline=tuple(baseline),
            against=tuple(against),
            task=task,
            judge=judge_model,
            n=n,
            seed=seed,
            together=together,
            out=out,
        )
        comparison.run(comparison_settings, judge_models.load(judge_model)).report().show(out)


@evals.command(context_settings=_THEIRS)
def harness(context: typer.Context, _imports: Imports = None) -> None:
    """Run lm-evaluation-harness on a formula, by that program's own options."""
    with clear_errors():
        if find_spec("lm_eval") is None:
            raise RequestError("the harness is not installed: pip install 'marith[harness]'")
        from marith.evals.harness import command_line  # torch

        command_line.run(context.args)
