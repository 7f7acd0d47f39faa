"""Scorers of Inspect AI for texts: classifiers, perplexity, VADER, word length, own functions."""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import anyio
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, model_graded_qa, scorer, stderr
from inspect_ai.solver import TaskState

from marith.errors import RequestError, shown
from marith.evals.pocket_texts import phrases_by_prompt

_LARGEST = 700  # nats: the exponential of a larger number overflows
_METRICS = [mean(), stderr()]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@scorer(metrics=_METRICS)
def classifier(model: str, label: str | int, device: str | None = None) -> Scorer:
    """Score a text by the probability that the classifier `model` gives to `label`."""
    from marith.models import attribute  # torch, which Inspect's start does without

    attribute((), model, label, device)  # what is missing is found before any text is made
    one_at_a_time = anyio.CapacityLimiter(1)  # for a tokenizer that pads is not to be shared
    return _of_text(lambda text: attribute([text], model, label, device)[0], one_at_a_time)


@scorer(metrics=_METRICS)
def vader(tone: str = "negative") -> Scorer:
    """Score a text by its `tone`, "positive" or "negative", with VADER (Hutto and Gilbert, 2014).

    The score is VADER's compound where that has the tone, and 0 elsewhere.
    """
    if tone not in ("positive", "negative"):
        raise RequestError(f"a tone is 'positive' or 'negative', not {shown(tone)}")
    try:
        from vaderSentiment import vaderSentiment
    except ModuleNotFoundError:
        raise RequestError("vader needs vaderSentiment: pip install 'marith[evals]'") from None
    lexicon: Any = vaderSentiment  # which is not typed
    analyser, sign = lexicon.SentimentIntensityAnalyzer(), 1 if tone == "positive" else -1

    def measured(text: str) -> float:
        return max(0.0, sign * float(analyser.polarity_scores(text)["compound"]))

    return _of_text(measured)


@scorer(metrics=_METRICS)
def length() -> Scorer:
    """Score a text by 1 − the mean length of its words / 10 (the paper, section 5.3)."""

    def measured(text: str) -> float | None:
        words = text.split()
        return 1 - fmean(map(len, words)) / 10 if words else None

    return _of_text(measured)


@scorer(metrics=_METRICS)
def manner(prompt: str) -> Scorer:
    """Score a text by its share of sentences that only one system prompt of pocket's corpus has."""
    if prompt not in phrases_by_prompt():
        raise RequestError(f"a manner is of {', '.join(phrases_by_prompt())}, not {prompt!r}")
    phrases = sorted(phrases_by_prompt()[prompt])
    pattern = re.compile("|".join(re.escape(one).replace(r"\*", ".+") for one in phrases))

    def measured(text: str) -> float | None:
        sentences = [one for one in _SENTENCE.split(text.strip().lower()) if one]
        return fmean(bool(pattern.fullmatch(one)) for one in sentences) if sentences else None

    return _of_text(measured)


@scorer(metrics=_METRICS)
def judge(model: str, criterion: str) -> Scorer:
    """Score a text by whether it meets a criterion, as `model` grades it: `model_graded_qa`."""
    if not model or not criterion:
        raise RequestError("a judge is judge:PROVIDER/MODEL=CRITERION, such as =is polite")
    graded = model_graded_qa(model=get_model(model))

    async def score(state: TaskState, target: Target) -> Score | None:  # noqa: ARG001
        return await graded(state, Target(criterion))

    return score


@scorer(metrics=_METRICS)
def function(path: str) -> Scorer:
    """Score a text by a function, named as "package.module:name", from a text to a number or None.

    Modules of the current directory can be named too.
    """
    return _of_text(_imported(path))


@scorer(metrics=_METRICS)
def perplexity(of_formula: bool = False) -> Scorer:
    """Score a text by the perplexity of exactly its sampled tokens under the bare model.

    The bare model is `M` with the terms of the evaluated formula, and reads the same messages; with
    `of_formula` it is the formula itself. Models of other providers than marith have none.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 (Inspect's names)
        from marith.evals.provider import MarithAPI, plain_messages  # torch

        api = get_model().api
        tokens = (state.output.metadata or {}).get("tokens", [[]])[0]
        if not isinstance(api, MarithAPI) or not tokens:
            return Score.unscored(reason="no tokens of marith")
        engine, messages = await api.engine(), plain_messages(state.messages[:-1])
        scores = await asyncio.wrap_future(
            engine.submit_scoring(
                messages, tokens, api.options.formula if of_formula else "M", api.options.terms
            )
        )
        nats = -fmean(scores.logprobs)
        return Score(value=math.exp(nats) if nats < _LARGEST else math.inf)

    return score


def named(measure: str) -> Scorer:
    """Return the scorer that a text names.

    A measure is MODEL:LABEL of a classifier, "perplexity", "length", "vader:positive",
    "vader:negative", "manner:PROMPT", "judge:PROVIDER/MODEL=CRITERION", or "package.module:name" of
    a function. Raises RequestError for anything else.
    """
    first, colon, rest = measure.rpartition(":")
    if measure == "perplexity":
        return perplexity()
    if measure == "length":
        return length()
    if first == "vader":
        return vader(rest)
    if first == "manner":
        return manner(rest)
    if measure.startswith("judge:"):
        model, _, criterion = measure.removeprefix("judge:").partition("=")
        return judge(model, criterion)
    if colon and _names_function(first, rest):
        return function(measure)
    if first and rest:
        return classifier(first, rest)
    kinds = "MODEL:LABEL, perplexity, length, vader:TONE, manner:PROMPT, judge:MODEL=CRITERION"
    raise RequestError(f"a measure is {kinds} or package.module:name, not {measure!r}")


def _of_text(
    measured: Callable[[str], float | None], limiter: anyio.CapacityLimiter | None = None
) -> Scorer:
    """Return a scorer by a function of the text alone, which runs on a thread of its own."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 (Inspect's names)
        text = state.output.completion
        value = await anyio.to_thread.run_sync(measured, text, limiter=limiter)
        if value is None:
            return Score.unscored(reason="no number")
        return Score(value=float(value), answer=text)

    return score


def _names_function(module: str, name: str) -> bool:
    """Return whether `module:name` is written as Python writes names, and is no model's folder."""
    words = (*module.split("."), name)
    return all(word.isidentifier() for word in words) and not Path(module).is_dir()


def _imported(path: str) -> Callable[[str], float | None]:
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # at the end: no file here takes the place of a package
    try:
        measured = getattr(import_module(module), name)
    except (ImportError, SyntaxError) as error:
        problem = f"cannot import the measure {path!r}: {error}"
        raise RequestError(f"{problem}; a classifier of the hub is OWNER/NAME:LABEL") from None
    except AttributeError:
        raise RequestError(f"the module {module!r} has no measure {name!r}") from None
    if not callable(measured):
        raise RequestError(f"a measure is a function from a text to a number, not {path!r}")
    return cast("Callable[[str], float | None]", measured)
