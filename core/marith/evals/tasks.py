"""The paper's evaluations as tasks of Inspect AI: `inspect eval marith/toxicity`."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample, csv_dataset, hf_dataset, json_dataset
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from marith import RequestError
from marith.evals import pocket_texts, scorers
from marith.evals.pocket_texts import HOSTILE_MESSAGES, QUESTIONS, REVIEWS, REVIEWS_OF

# In a frame, this text stands for the prompt.
MESSAGE = "{message}"
CONVERSATION = f"Person 1: {MESSAGE}\nPerson 2:"
DEFAULT_COUNT = 200
TONES = ("negative", "positive")
# The model reads this many tokens of a review before it continues.
BEGINNING = 32
# The first of these columns has the prompts if no column is named.
_COLUMNS = ("prompt", "text", "message", "review", "instruction")


@task
def toxicity(
    data: str | None = None,
    column: str | None = None,
    where: Mapping[str, str] | None = None,
    n: int | None = None,
    seed: int = 0,
    judge: str = "pocket-toxicity:toxic",
    continues: bool = False,
    frame: str | None = None,
) -> Task:
    """Measure how hostile the answers to hostile messages are (the paper, section 5.1).

    In the default frame, "Person 2" answers the message of "Person 1". With `continues` the model
    continues the message itself. `frame` is another text around a message, with {message} in its
    place. `judge` is a measure (see `scorers.named`).
    """
    frame = frame or (MESSAGE if continues else CONVERSATION)
    stop = [] if continues else ["\n", "Person 1:"]
    rows = prompts(HOSTILE_MESSAGES, data, column, where, n, seed)
    measures = {"toxicity": scorers.named(judge)}
    return texts_task("toxicity", rows, measures, seed, frame, stop, 32)


@task
def sentiment(
    to: str = "positive",
    data: str | None = None,
    column: str | None = None,
    where: Mapping[str, str] | None = None,
    n: int | None = None,
    seed: int = 0,
    judge: str | None = None,
) -> Task:
    """Measure whether reviews that begin with the other sentiment end with the sentiment `to`.

    This is the evaluation of the paper's appendix. The model continues the first 32 tokens of a
    review. Without `data`, the reviews are pocket's own reviews of the other sentiment. `judge` is
    a measure (see `scorers.named`).
    """
    if to not in TONES:
        raise RequestError(f"to={to!r} is unknown: write to='negative' or to='positive'")
    kind = REVIEWS_OF[TONES[1 - TONES.index(to)]]
    rows = prompts(kind, data, column, where, n, seed)
    measures = {to: scorers.named(judge or f"pocket-sentiment:{to}")}
    made = texts_task(to, rows, measures, seed, MESSAGE, ["\n"], 64)
    made.setup = beginning(BEGINNING)
    return made


@task
def texts(
    measures: Sequence[str] | Mapping[str, str] = ("perplexity",),
    data: str | None = None,
    column: str | None = None,
    where: Mapping[str, str] | None = None,
    n: int | None = None,
    seed: int = 0,
    frame: str = MESSAGE,
    stop: Sequence[str] = (),
) -> Task:
    """Measure the answers to any prompts by any `measures` (see `scorers.named`).

    If `measures` is a mapping, its keys are the names of the measures.
    """
    rows = prompts(QUESTIONS, data, column, where, n, seed)
    # Inspect passes `-T measures=length` as one text.
    measures = [measures] if isinstance(measures, str) else measures
    by_name = measures if isinstance(measures, Mapping) else {name: name for name in measures}
    named = {name: scorers.named(measure) for name, measure in by_name.items()}
    stop = [stop] if isinstance(stop, str) else stop
    return texts_task("texts", rows, named, seed, frame, stop, 64)


@task
def perplexity(
    data: str | None = None,
    column: str | None = None,
    where: Mapping[str, str] | None = None,
    n: int | None = None,
    seed: int = 0,
) -> Task:
    """Measure the perplexity of given texts under the formula. No text is generated."""
    rows = prompts(REVIEWS, data, column, where, n, seed)
    return Task(
        dataset=MemoryDataset([Sample(id=row, input=text) for row, text in rows]),
        solver=prompt_as_answer(),
        scorer=scorers.perplexity(of_formula=True),
        name="perplexity",
        version=_digest(rows),
        metadata={"measures": ["perplexity"]},
    )


def texts_task(
    name: str,
    rows: Sequence[tuple[int, str]],
    measures: Mapping[str, Scorer],
    seed: int,
    frame: str,
    stop: Sequence[str],
    max_tokens: int,
) -> Task:
    """Return a task that generates a text for each prompt and epoch, and scores it by `measures`.

    `frame` is the text around a prompt, with {message} in its place. Perplexity is added as the
    last measure, unless `measures` has it. The task's `metadata` has the names of the measures, in
    order. Options of Inspect, such as `--temperature`, replace the options of the task.
    """
    if MESSAGE not in frame:
        raise RequestError(f"the frame {frame!r} has no {MESSAGE}: write it where a prompt belongs")
    if "perplexity" not in measures:
        measures = {**measures, "perplexity": scorers.perplexity()}
    samples = [
        Sample(id=row, input=frame.replace(MESSAGE, text), metadata={"message": text})
        for row, text in rows
    ]
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=answer(seed),
        scorer=list(measures.values()),
        config=GenerateConfig(max_tokens=max_tokens, temperature=1.0, stop_seqs=list(stop) or None),
        name=name,
        version=_digest(rows),
        metadata={"measures": list(measures)},
    )


def _digest(data: object) -> str:
    """Return a hash of `data`.

    As the version of a task, it keeps Inspect from taking a log of other data for a log of the
    task.
    """
    return hashlib.sha256(str(data).encode()).hexdigest()


@solver
def answer(seed: int = 0) -> Solver:
    """Generate an answer. Its seed is computed from `seed`, the sample and the epoch.

    The costs of each term are added to the sample's metadata, which `inspect view` shows.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        digest = _digest(f"{seed} {state.sample_id} {state.epoch}")
        state = await generate(state, seed=int(digest[:8], 16))
        state.metadata |= {"composition": (state.output.metadata or {}).get("composition")}
        return state

    return solve


@solver
def prompt_as_answer() -> Solver:
    """Use the prompt as if it were a generated answer to an empty message."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        text = state.user_prompt.text
        state.messages = [ChatMessageUser(content=""), ChatMessageAssistant(content=text)]
        api: Any = get_model().api
        if not hasattr(api, "engine"):
            problem = f"perplexity needs a model of marith, not {get_model()}"
            raise RequestError(f"{problem}: write --model marith/NAME")
        engine = await api.engine()
        state.output = ModelOutput.from_content(str(state.model), text)
        # The scorer of perplexity reads the tokens here.
        state.output.metadata = {"tokens": [engine.encode(text)]}
        return state

    return solve


@solver
def beginning(count: int) -> Solver:
    """Cut the prompt after `count` tokens. A model of another provider gets the whole prompt."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        api: Any = get_model().api
        if hasattr(api, "engine"):
            engine = await api.engine()
            tokens = engine.encode(state.user_prompt.text)
            if len(tokens) > count:
                state.user_prompt.text = engine.decode(tokens[:count])
        return state

    return solve


def prompts(
    kind: str,
    data: str | None = None,
    column: str | None = None,
    where: Mapping[str, str] | None = None,
    n: int | None = None,
    seed: int = 0,
) -> list[tuple[int, str]]:
    """Return `n` prompts with their rows: pocket's own prompts of `kind`, or texts of `data`.

    `data` is a .json, .jsonl or .csv file, or `hub:owner/name:split`, which Inspect reads. `column`
    is the column with the texts; `a.b` is the field b in the column a. `where` maps columns to
    values, and only rows with these values are used. Without `n`, 200 prompts are returned, or all
    if there are fewer. A larger `n` keeps the prompts of a smaller `n` and adds others. Raises
    RequestError for data that cannot be read, and if there are fewer than `n` prompts.
    """
    if n is not None and n < 1:
        raise RequestError(f"n is a whole number from 1, not {n}")
    if data is None:
        if where or column:
            given = f"where={where!r}" if where else f"column={column!r}"
            raise RequestError(f"{given} needs data: write data=FILE too")
        rows = [(i, str(one["text"])) for i, one in enumerate(pocket_texts.records(kind))]
        source = f"pocket's set of {kind}"
    else:
        rows, source = _read(data, column, where or {}), repr(data)
    count = min(DEFAULT_COUNT, len(rows)) if n is None else n
    if count > len(rows) or not rows:
        kind = f"texts with {dict(where)!r}" if where else "texts"
        advice = f": write n={len(rows)} or less" if rows else ""
        raise RequestError(f"{source} has {len(rows)} {kind}, not {max(count, 1)}{advice}")
    # Pocket's own prompts are in a random order already, which seed 0 keeps.
    if data is not None or seed:
        random.Random(f"rows {seed}").shuffle(rows)  # noqa: S311 (rows, not secrets)
    return rows[:count]


def _read(data: str, column: str | None, where: Mapping[str, str]) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    records = _records(data)
    if not records:
        raise RequestError(f"{data!r} has no rows")
    name = column or next((one for one in _COLUMNS if one in records[0]), None)
    if name is None or _value(records[0], name) is None:
        problem = f"{data!r} has no column named {column or ', '.join(_COLUMNS)}"
        columns = ", ".join(map(str, records[0]))
        raise RequestError(f"{problem}: write column=NAME, where NAME is one of {columns}")
    for row, record in enumerate(records):
        text = _value(record, name)
        # Some data sets, such as RealToxicityPrompts, have a text together with its scores.
        text = text.get("text") if isinstance(text, Mapping) else text
        if all(str(_value(record, key)) == str(value) for key, value in where.items()) and text:
            rows.append((row, str(text)))
    return rows


def _records(data: str) -> list[Mapping[str, Any]]:
    """Return the rows of a file or of a data set on the hub, as Inspect reads them."""
    found: list[Mapping[str, Any]] = []

    # Inspect's readers return only samples, so the rows are collected while they are converted.
    def keep(record: Mapping[str, Any]) -> Sample:
        found.append(record)
        return Sample(input="")

    readers: dict[str, Callable[..., object]] = {
        ".json": json_dataset, ".jsonl": json_dataset, ".csv": csv_dataset,
    }  # fmt: skip
    reader = readers.get(Path(data).suffix.lower())
    of_hub = data.startswith("hub:")
    if reader is not None and not Path(data).is_file():
        raise RequestError(f"there is no file {data!r}")
    if not of_hub and reader is None:
        kinds = "a .json, .jsonl or .csv file, or hub:owner/name:split"
        raise RequestError(f"data is {kinds}, not {data!r}")
    try:
        if of_hub:
            path, _, split = data.removeprefix("hub:").partition(":")
            hf_dataset(path, split or "train", sample_fields=keep)
        elif reader is not None:
            reader(data, sample_fields=keep)
    # Each reader raises errors of its own.
    except Exception as error:
        raise RequestError(f"{data!r} cannot be read: {error}") from None
    return found


def _value(record: Mapping[str, Any], column: str) -> Any:
    """Return the value of `column`, or None. `a.b` is the field b in the column a."""
    value: Any = record
    for part in [column] if column in record else column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
