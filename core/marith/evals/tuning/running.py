"""The course of a search: `M` first, then trial after trial; it goes on where it was cut."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from marith.engine.engine import Engine
from marith.evals import sentiment
from marith.evals.experiment.bars import Bars, progress
from marith.evals.experiment.figures import Figure
from marith.evals.experiment.plan import Experiment
from marith.evals.experiment.report import counted
from marith.evals.experiment.settings import gathered
from marith.evals.experiment.store import opened
from marith.evals.experiment.texts import Line, Prompt
from marith.evals.measures import Perplexity
from marith.evals.tuning.measuring import Stand
from marith.evals.tuning.report import Report
from marith.evals.tuning.search import Trial, check, search
from marith.evals.tuning.settings import MANY, Settings
from marith.evals.tuning.tasks import MESSAGE
from marith.formula.meaning.binding import BARE
from marith.request.stop import Stop


def run(settings: Settings) -> Report:
    """Seek the unknowns. Every text and number is kept in `out` as soon as it is known.

    The same search goes on where it was broken off, or with more trials: it is made again, and
    what it measured before is read. Shows progress on standard error. Raises FormulaError,
    ModelError or RequestError.
    """
    check()
    experiment = _experiment(settings)
    for measure in experiment.measures:
        measure.check()
    told = {**experiment.settings(), **settings.described()}
    with ExitStack() as stack:
        folder = settings.out or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(opened(folder, told))
        bars = Bars(stack.enter_context(progress()), 1)
        engine = stack.enter_context(Engine.load(settings.model))
        bare, trials = _sought(settings, experiment, folder, engine, bars)
    title = f"{settings.formula} over {settings.model}: {counted(len(trials), 'trial')} on "
    title += f"{counted(len(experiment.prompts), 'prompt')}, {experiment.source}"
    most, better = settings.bound.over(bare[1].mean), settings.measure.better
    return Report(title, settings.attribute, better, most, bare, tuple(trials), told)


def _sought(
    settings: Settings, experiment: Experiment, folder: Path, engine: Engine, bars: Bars
) -> tuple[tuple[Figure, Figure], list[Trial]]:
    """The figures of `M`, attribute and perplexity, and all trials."""
    each = len(experiment.prompts) * experiment.samples
    bars.begin("texts", (settings.trials + 1) * each)
    bars.begin("trials", settings.trials)
    stand = Stand(experiment, folder, engine, lambda _: bars.advance("texts"))

    def ask(formula: str) -> tuple[Figure, Figure]:
        attribute, perplexity = stand.figures(formula).values()
        return attribute, perplexity

    bare = ask(BARE)
    trials = search(
        settings.formula,
        settings.ranges,
        settings.measure.better,
        settings.bound.over(bare[1].mean),
        settings.trials,
        settings.seed,
        ask,
        lambda _: bars.advance("trials"),
    )
    return bare, trials


def _experiment(settings: Settings) -> Experiment:
    """All but the formulas, which come one after another."""
    place = settings.place
    found = gathered(settings, place.own, MANY)
    rows, texts = zip(*found.texts, strict=True)
    read = sentiment.beginnings(settings.model, texts) if settings.task == "sentiment" else texts
    frame = settings.frame or place.frame
    stop = Stop(settings.max_tokens or place.stop.max_tokens, settings.stop or place.stop.strings)
    return Experiment(
        "tuning",
        settings.model,
        (Line(BARE, BARE),),
        settings.known,
        tuple(
            Prompt(row, text, frame.replace(MESSAGE, one))
            for row, text, one in zip(rows, texts, read, strict=True)
        ),
        (settings.measure, Perplexity(settings.known)),
        settings.seed,
        settings.samples,
        settings.temperature,
        stop,
        found.source,
    )
