"""Let every formula answer every prompt, many at once, and keep each text as soon as it is made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from marith.engine.engine import Engine
from marith.engine.ticket import Ticket
from marith.evals.experiment.experiment import Experiment, TextTask
from marith.evals.experiment.store import Journal
from marith.evals.experiment.texts import Key, Text, at_row
from marith.request.request import Request

IN_FLIGHT = 64


def texts_in(journal: Journal) -> dict[Key, Text]:
    """The texts in a journal, by their key."""
    return {text.key: text for text in map(Text.from_json, journal.lines)}


def generate_texts(
    experiment: Experiment,
    tasks: Sequence[TextTask],
    engine: Engine,
    journal: Journal,
    advance: Callable[[str], None],
) -> None:
    """Generate these texts, in their order; `advance` receives the formula's name after each.

    Each text has its own seed, so what runs beside it changes nothing. Raises FormulaError,
    RequestError or ModelError with the row of the data whose prompt is at fault.
    """
    running: deque[tuple[TextTask, Ticket]] = deque()

    def finish() -> None:
        task, ticket = running.popleft()
        journal.add(_text(task, ticket).to_json())
        advance(task.line.name)

    for task in tasks:
        if len(running) == IN_FLIGHT:
            finish()
        running.append((task, _submit(experiment, task, engine)))
    while running:
        finish()


def _submit(experiment: Experiment, task: TextTask, engine: Engine) -> Ticket:
    request = Request(
        task.prompt.asked,
        task.line.formula,
        experiment.terms,
        task.sampling(experiment.temperature),
        experiment.stop,
    )
    with at_row(task.prompt.row):
        return engine.submit(request)


def _text(task: TextTask, ticket: Ticket) -> Text:
    with at_row(task.prompt.row):
        completion = ticket.result()
    return Text(
        task.line.name,
        task.prompt.row,
        task.sample,
        task.seed,
        task.prompt.message,
        task.prompt.asked,
        completion.text,
        tuple(completion.tokens),
        completion.finish_reason,
        completion.usage.prompt_tokens,
        completion.stats.calls,
    )
