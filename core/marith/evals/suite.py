"""Run several formulas in one evaluation: an eval set of Inspect AI, on one engine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inspect_ai import Task, eval_set, task_with
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import get_model

from marith import Formula, RequestError
from marith.console import terminal
from marith.evals.formulas import NamedFormula
from marith.evals.results import Measured, Results, TextRow

# The logs of an evaluation are in the subfolder of its folder with this name.
LOGS = "logs"
# This many samples run at once. Their requests wait in the engine's queue, and run in batches.
TOGETHER = 512


def run(
    title: str,
    make: Callable[[], Task],
    formulas: Sequence[NamedFormula],
    terms: Mapping[str, Any],
    model: str = "pocket",
    samples: int = 1,
    out: Path | None = None,
    better: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    max_tokens: int | None = None,
    temperature: float | None = None,
    display: Any = None,
    **placed: Any,
) -> Results:
    """Generate `samples` texts for each prompt and formula, and score them.

    `make` returns a new copy of the task. `max_tokens` and `temperature` replace the task's.
    `placed` are `device`, `dtype`, `revision`, `backend` and `over` of the model. The logs are kept
    in `out`, and the same call resumes a run that was killed. `inspect view --log-dir OUT/logs`
    shows them. Raises FormulaError, ModelError or RequestError.
    """
    _require_distinct(formulas)
    arguments = {name: value for name, value in placed.items() if value is not None}
    # Inspect writes the arguments of a model to its logs as JSON, so formulas become texts.
    arguments["terms"] = {
        name: {"formula": str(term)} if isinstance(term, Formula) else term
        for name, term in terms.items()
    }
    tasks = [_task(make(), line, model, arguments) for line in formulas]
    api: Any = tasks[0].model and tasks[0].model.api
    # The model is loaded now, so that its errors are raised here, and so that loading does not
    # count in the texts per second.
    api.options.engine()
    with ExitStack() as stack:
        # An eval set needs a folder for its logs, even if nobody keeps them.
        folder = Path(stack.enter_context(TemporaryDirectory())) if out is None else out / LOGS
        _, logs = eval_set(
            tasks,
            log_dir=str(folder),
            # A folder may already have the logs of other formulas, or of other data.
            log_dir_allow_dirty=True,
            log_level="warning",
            display=display or ("rich" if terminal().is_terminal else "none"),
            epochs=samples,
            max_tokens=max_tokens,
            temperature=temperature,
            # One formula runs after another, so that each has its own texts per second.
            max_tasks=1,
            max_connections=TOGETHER,
            max_samples=TOGETHER,
            retry_attempts=0,
            retry_immediate=False,
            log_realtime=False,
            score_display=False,
            ctl_server=False,
        )
        whole = {_formula(log): read_eval_log(log.location) for log in logs}
    rows = tuple(_measured(line, whole.get(line.formula)) for line in formulas)
    return Results(title, rows, {"perplexity": "lower", **(better or {})}, tuple(notes))


def _task(task: Task, line: NamedFormula, model: str, arguments: Mapping[str, Any]) -> Task:
    # The provider counts repeated messages, and the count is part of a text's seed. A memoized
    # model would keep the counts of earlier runs, and so generate other texts.
    evaluated = get_model(f"marith/{model}", memoize=False, formula=line.formula, **arguments)
    metadata = {**(task.metadata or {}), "formula": line.formula}
    return task_with(task, model=evaluated, metadata=metadata, tags=[line.formula])


def _formula(log: EvalLog) -> str:
    return str((log.eval.metadata or {}).get("formula"))


def _require_distinct(lines: Sequence[NamedFormula]) -> None:
    """Raise RequestError for a name or a formula that occurs twice."""
    # A log is found by its formula, and a row of the results by its name.
    for texts in ([line.name for line in lines], [line.formula for line in lines]):
        if twice := [text for text in texts if texts.count(text) > 1]:
            raise RequestError(f"{twice[0]!r} is evaluated twice: leave one out")


def _measured(line: NamedFormula, log: EvalLog | None) -> Measured:
    """Return the texts in the log of a formula. Raises RequestError for an incomplete log."""
    if log is None or log.status != "success":
        problem = "the run was stopped" if log is None or log.error is None else log.error.message
        # Inspect keeps the repr of an exception, such as RequestError('…'); the text is enough.
        problem = re.sub(r"""^\w+\((["'])(.*)\1\)$""", r"\2", problem)
        raise RequestError(f"{line.name} has no results: {problem}")
    measures = (log.eval.metadata or {})["measures"]
    rows, moments = [], []
    for sample in log.samples or []:
        values = [_number(score.value) for score in (sample.scores or {}).values()]
        message = str((sample.metadata or {}).get("message", ""))
        rows.append(
            TextRow(
                int(sample.id),
                sample.epoch,
                message,
                sample.output.completion,
                dict(zip(measures, values, strict=True)),
            )
        )
        moments += [event.timestamp for event in sample.events]
    seconds = (max(moments) - min(moments)).total_seconds() if moments else math.nan
    return Measured(line, tuple(rows), len(rows) / seconds)


def _number(value: Any) -> float:
    """Return a score as a number. Inspect's grade C counts as 1, P as 0.5, and I and N as 0."""
    grades = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
    return grades[value] if value in grades else float(value)
