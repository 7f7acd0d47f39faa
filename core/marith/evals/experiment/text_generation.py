"""Let every formula answer every prompt, many at once, and keep each text as soon as it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from marith.engine.engine import Engine
from marith.engine.ticket import Ticket
from marith.evals.experiment.experiment import Experiment, TextTask
from marith.evals.experiment.in_flight import in_flight
from marith.evals.experiment.store import Journal
from marith.evals.experiment.texts import Key, Text, at_row
from marith.request.request import Request
from marith.request.sampling import Sampling

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

    def submit(task: TextTask) -> Callable[[], Text]:
        request = Request(
            task.prompt.asked,
            task.line.formula,
            experiment.terms,
            Sampling(experiment.temperature, seed=task.seed),
            experiment.stop,
        )
        with at_row(task.prompt.row):
            return partial(_text, task, engine.submit(request))

    for text in in_flight(submit, tasks, IN_FLIGHT):
        journal.add(text.to_json())
        advance(text.line)


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
