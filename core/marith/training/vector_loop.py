"""Train a control vector from settings: load, read texts, subtract means, measure, choose."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from marith.console import bars
from marith.errors import ModelError, RequestError, shown
from marith.formula.tree.terms import Prompted
from marith.request.prompt import Prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.loader import as_stored, positions_of
from marith.training.directions import Means, Projections, choose, measure
from marith.training.hidden_states import HiddenStates, Reading, Take
from marith.training.labelled_texts import random_source
from marith.training.trained_vector import TrainedVector, VectorReport
from marith.training.vector_settings import VectorSettings


def train_vector(settings: VectorSettings) -> TrainedVector:
    """Compute a control vector: the difference of two means of hidden states, for each layer.

    Each token of the continuations, or of the example texts, gives a state after each decoder
    layer. Progress is shown on standard error. Raises ModelError or RequestError.
    """
    model, tokenizer = as_stored(settings.model, settings.placement)
    vocabulary = Vocabulary(tokenizer, model.config.get_text_config().vocab_size)
    states = HiddenStates(model.eval())
    _check_layers(settings, states.layers)
    sides = [
        _readings(settings, side, vocabulary, positions_of(model))
        for side in ("positive", "negative")
    ]
    learned, held_out = zip(*(_split(side, settings) for side in sides), strict=True)
    began = time.monotonic()
    with _bars() as shown_bars:
        bar = shown_bars.add_task("reading texts", total=sum(map(len, sides)))

        def read(readings: Sequence[Reading], take: Take) -> None:
            for count in states.read(readings, settings.batch_size, take):
                shown_bars.advance(bar, count)

        means = [Means(states.layers, states.width) for _ in sides]
        for mean, readings in zip(means, learned, strict=True):
            read(readings, mean.add)
        directions = means[0].states - means[1].states
        if not bool(directions.isfinite().all()):
            raise ModelError(f"{settings.model!r} computes hidden states that are not finite")
        along = [Projections(directions) for _ in sides]
        for projections, readings in zip(along, held_out, strict=True):
            read(readings, projections.add)
    seconds = round(time.monotonic() - began, 2)
    sizes = directions.norm(dim=1) * 2 / (means[0].lengths + means[1].lengths)
    lines = measure(along[0].distances, along[1].distances, sizes.tolist())
    first, last = settings.layers or choose([line.auc for line in lines])
    report = VectorReport(
        settings,
        sum(map(len, learned)),
        sum(map(len, held_out)),
        seconds,
        tuple(replace(line, chosen=first <= line.layer <= last) for line in lines),
    )
    chosen = {layer: directions[layer].float() for layer in range(first, last + 1)}
    return TrainedVector(report, model.config.model_type, chosen)


def _check_layers(settings: VectorSettings, count: int) -> None:
    if count < 2:
        raise ModelError(f"{settings.model!r} has one decoder layer; a vector needs at least two")
    if settings.layers is not None and settings.layers[1] >= count:
        raise RequestError(
            f"the layers of {settings.model!r} are 1 to {count - 1}, not to {settings.layers[1]}"
        )


def _readings(
    settings: VectorSettings, side: str, vocabulary: Vocabulary, limit: int
) -> list[Reading]:
    """Return the texts of one side as tokens. Texts longer than the context are cut."""
    given: Any = getattr(settings, side)
    if settings.are_prompts:
        # Small models follow a user more than a system prompt, so their directions are clearer.
        asked = Prompt(({"role": "user", "content": given},))
        prompt = to_tokens(Prompted(), asked, vocabulary)
        texts = settings.continuations
        tokens = [(prompt, vocabulary.encode(text)) for text in texts]
    else:
        texts = given
        whole = (vocabulary.encode(text, start=True) for text in texts)
        # The first token is the same for all texts if it is a start token. Otherwise its state is
        # many times as long as others.
        tokens = [(text[:1], text[1:]) for text in whole]
    readings = [Reading([*head, *rest][:limit], len(head)) for head, rest in tokens]
    for text, reading in zip(texts, readings, strict=True):
        if len(reading.tokens) <= reading.start:
            problem = f"no token of {shown(text)} is left to be read"
            raise RequestError(f"{problem}: the context has {limit} tokens")
    return readings


def _split(
    readings: Sequence[Reading], settings: VectorSettings
) -> tuple[list[Reading], list[Reading]]:
    """Return the texts to learn from, and those to hold out, at least one of each.

    The continuations of both prompts are split in the same way.
    """
    order = list(range(len(readings)))
    random_source(settings.seed, "held out").shuffle(order)
    count = min(max(1, round(settings.held_out * len(readings))), len(readings) - 1)
    held_out = {*order[:count]}
    return (
        [one for i, one in enumerate(readings) if i not in held_out],
        [one for i, one in enumerate(readings) if i in held_out],
    )


def _bars() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return bars(*columns, TimeRemainingColumn())
