"""Perplexity: how likely are given texts to a formula? All of their tokens, and no others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from marith.engine.engine import Engine
from marith.errors import RequestError
from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.evaluation_settings import PLAIN, EvaluationSettings, source_texts
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.formulas import read_formulas
from marith.evals.experiment.store import Journal, opened, write
from marith.evals.experiment.summary import Summary, summarise
from marith.evals.experiment.text_generation import load_engine
from marith.evals.experiment.texts import FILE, NamedFormula, PromptRow, Text, read_texts
from marith.evals.metrics.metric import values_of
from marith.evals.metrics.statistics import Figure, figure, interval
from marith.evals.metrics.text_perplexity import Perplexity
from marith.evals.pocket_texts import REVIEWS
from marith.evals.reporting.evaluation_report import to_csv
from marith.evals.reporting.numbers import counted, digits
from marith.evals.reporting.progress import Bars, print_notes, progress

__all__ = ["Settings", "run"]

Settings = EvaluationSettings  # as callers write it: `perplexity.Settings(n=4)`

NAME = "perplexity"
NOBODY = ""  # made a text that is only given
BY_TEXT = "by_text.csv"
CORPUS = "corpus perplexity"


def run(settings: EvaluationSettings) -> Summary:
    """Perplexities of texts under formulas, or `M` alone: text by text, and of all their tokens.

    Data are texts, or the folder of another evaluation, whose texts are read after their prompts
    and keep their tokens. Raises FormulaError, ModelError or RequestError.
    """
    formulas = read_formulas(settings.formulas)
    given = _given(settings)
    makers = _makers(formulas.lines or (NamedFormula("M", "M"),), given)
    lines = tuple(makers)
    terms = {"M": PLAIN, **formulas.terms, **settings.terms}
    prompts = {text.row: PromptRow(text.row, text.message, text.prompt) for text in given.texts}
    experiment = Experiment(
        "perplexity",
        settings.model,
        lines,
        terms,
        tuple(prompts.values()),
        (Perplexity(terms, {line.name: line.formula for line in lines}),),
        settings.seed,
        samples=1 + max(text.sample for text in given.texts),
        source=given.source,
        device=settings.device,
        dtype=settings.dtype,
        revision=settings.revision,
        backend=settings.backend,
    )
    results = _measured(experiment, makers, given, settings.out)
    count = counted(len(given.texts), "text")
    title = f"perplexity of {count} to {settings.model}: {given.source}"
    summary = summarise(results, title, notes=[*formulas.notes, *given.notes])
    if settings.out is not None:
        write(settings.out / BY_TEXT, by_text(results))
    return with_corpus(summary, results)


def with_corpus(summary: Summary, results: Results) -> Summary:
    """The summary with one column more: the perplexity of all tokens of all texts together."""
    rows = []
    for row in summary.rows:
        texts = [text for text in results.of_line(row.line.name) if text.tokens]
        values = [results.values[NAME][text.key] or math.nan for text in texts]
        together = corpus(values, [len(text.tokens) for text in texts])
        rows.append(replace(row, figures={**row.figures, CORPUS: together}))
    return replace(summary, rows=tuple(rows), measures={**summary.measures, CORPUS: "lower"})


def corpus(values: Sequence[float], tokens: Sequence[int]) -> Figure:
    """What perplexities of texts of so many tokens are together: each token counts alike.

    The interval is by the bootstrap over texts.
    """
    if not values:
        return figure([])
    nats = np.log(values)
    numbers = np.average(nats, weights=tokens), *interval(nats.tolist(), tokens)
    mean, low, high = (float(np.exp(number)) for number in numbers)
    return Figure(mean, low, high, math.nan, len(values), 0)


def by_text(results: Results) -> str:
    """Every text's perplexity under every formula, as CSV."""
    values = results.values[NAME]
    return to_csv(
        {
            "name": text.line,
            "row": text.row,
            "sample": text.sample,
            "tokens": len(text.tokens),
            NAME: None if (value := values[text.key]) is None else digits(value),
            "text": text.text,
        }
        for text in results.texts
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """Texts, whose `line` is the formula that made them, if one did."""

    texts: tuple[Text, ...]
    source: str
    notes: tuple[str, ...] = ()


def _given(settings: EvaluationSettings) -> _Given:
    path = Path(settings.data or "").expanduser()
    if settings.data and (path.name == FILE or (path / FILE).is_file()):
        return _of_evaluation(settings, path)
    reviews = source_texts(settings, REVIEWS)
    texts = [Text(NOBODY, row, 0, 0, text, "", text, (), "", 0, 0) for row, text in reviews.texts]
    return _Given(tuple(texts), reviews.source, reviews.notes)


def _of_evaluation(settings: EvaluationSettings, path: Path) -> _Given:
    for option, value in (
        ("n", settings.n),
        ("column", settings.column),
        ("where", settings.where),
        ("seed", settings.seed),
    ):
        if value:
            raise RequestError(f"of an evaluation's texts all are read; {option} is {value!r}")
    texts = read_texts(path)
    keys = {text.key for text in texts}
    lines, rows, samples = (dict.fromkeys(key[i] for key in keys) for i in range(3))
    if not texts or len(keys) != len(lines) * len(rows) * len(samples):
        raise RequestError(f"the evaluation in {settings.data!r} is not finished")
    return _Given(tuple(texts), f"texts of {settings.data}")


def _makers(lines: Sequence[NamedFormula], given: _Given) -> dict[NamedFormula, str]:
    """Each formula once for all that made texts, with whose texts it is asked about."""
    makers = dict.fromkeys(text.line for text in given.texts)
    if tuple(makers) == (NOBODY,):
        return dict.fromkeys(lines, NOBODY)
    return {
        NamedFormula(f"{line.name} of {maker}", line.formula): maker
        for line in lines
        for maker in makers
    }


def _measured(
    experiment: Experiment, makers: Mapping[NamedFormula, str], given: _Given, out: Path | None
) -> Results:
    """Every text under every formula that is asked about it."""
    (measure,) = experiment.measures
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(opened(folder, {**experiment.settings(), "texts": _digest(given)}))
        print_notes(given.notes)
        bars = Bars(stack.enter_context(progress()), 1)
        engine = stack.enter_context(load_engine(experiment))
        with_tokens = [_in_tokens(text, engine) for text in given.texts]
        texts = [
            replace(text, line=line.name)
            for line, maker in makers.items()
            for text in with_tokens
            if text.line == maker
        ]
        bars.begin(NAME, len(texts))
        journal = Journal(folder / f"{NAME}.jsonl")
        values = values_of(
            cache(partial(measure.open, engine)), texts, journal, partial(bars.advance, NAME)
        )
    return Results(experiment, tuple(texts), {NAME: values})


def _digest(given: _Given) -> str:
    """What differs where a text does."""
    content = json.dumps([(*text.key, text.text, text.tokens) for text in given.texts])
    return hashlib.sha256(content.encode()).hexdigest()


def _in_tokens(text: Text, engine: Engine) -> Text:
    """A text with its tokens: those that it was made of, or those that spell it."""
    if text.line == NOBODY:
        return replace(text, tokens=tuple(engine.encode(text.text)))
    if not engine.decode(text.tokens).startswith(text.text):
        raise RequestError(f"the tokens of {text.text[:40]!r} are not of {engine.model_name!r}")
    return text
