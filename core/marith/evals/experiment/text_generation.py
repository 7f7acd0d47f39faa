"""Let every formula answer every prompt, many at once, and keep each text as soon as it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from marith.engine.engine import Engine
from marith.engine.ticket import Ticket
from marith.evals.experiment.experiment import Experiment, TextTask
from marith.evals.experiment.in_flight import in_flight
from marith.evals.experiment.store import Journal
from marith.evals.experiment.texts import Key, Text, at_row
from marith.request.request import Request
from marith.request.sampling import Sampling

IN_FLIGHT = 64


class TextSource(Protocol):
    """What generates texts: an engine here, or those of a cluster."""

    @property
    def concurrency(self) -> int:
        """How many texts are asked of it before the first is waited for."""
        ...

    def submit(self, task: TextTask) -> Callable[[], Text]:
        """What waits for a text; it and this raise MarithError, with the row where one is wrong."""
        ...


def load_engine(experiment: Experiment) -> Engine:
    """The engine of an experiment's model. Raises ModelError."""
    return Engine.load(
        experiment.model,
        device=experiment.device,
        dtype=experiment.dtype,
        revision=experiment.revision,
        backend=experiment.backend,
    )


def texts_in(journal: Journal) -> dict[Key, Text]:
    """The texts in a journal, by their key."""
    return {text.key: text for text in map(Text.from_json, journal.lines)}


def generate_texts(
    source: TextSource,
    tasks: Sequence[TextTask],
    journal: Journal,
    advance: Callable[[str], None],
) -> None:
    """Generate these texts, in their order; `advance` receives the formula's name after each.

    Each text has its own seed, so what runs beside it changes nothing. Raises FormulaError,
    RequestError or ModelError with the row of the data whose prompt is at fault.
    """
    for text in in_flight(source.submit, tasks, source.concurrency):
        journal.add(text.to_json())
        advance(text.line)


class EngineTexts:
    """Texts of an experiment by an engine of this process."""

    def __init__(self, experiment: Experiment, engine: Engine) -> None:
        self._experiment, self._engine = experiment, engine
        self.concurrency = IN_FLIGHT

    def submit(self, task: TextTask) -> Callable[[], Text]:
        """Begin a text. Raises FormulaError or RequestError."""
        request = Request(
            task.prompt.asked,
            task.line.formula,
            self._experiment.terms,
            Sampling(self._experiment.temperature, seed=task.seed),
            self._experiment.stop,
        )
        with at_row(task.prompt.row):
            return partial(_text, task, self._engine.submit(request))


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
