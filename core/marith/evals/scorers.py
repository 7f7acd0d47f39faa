"""Score texts in Inspect AI: by classifiers, perplexity, VADER, word length, own functions."""

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

# `math.exp` overflows a little above this number of nats.
_LARGEST = 700
_METRICS = [mean(), stderr()]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@scorer(metrics=_METRICS)
def classifier(model: str, label: str | int, device: str | None = None) -> Scorer:
    """Score a text by the probability that the classifier `model` gives to `label`."""
    # Scoring imports torch, which would slow down every start of Inspect.
    from marith.models import attribute

    # A missing model or label is reported now, before any text is generated.
    attribute((), model, label, device)
    # A tokenizer keeps its padding as state, so only one thread at a time may call it.
    one_at_a_time = anyio.CapacityLimiter(1)
    return _of_text(lambda text: attribute([text], model, label, device)[0], one_at_a_time)


@scorer(metrics=_METRICS)
def vader(tone: str = "negative") -> Scorer:
    """Score how "positive" or "negative" a text is, with VADER (Hutto and Gilbert, 2014).

    The score is the absolute value of VADER's compound score if its sign fits `tone`, and else 0.
    """
    if tone not in ("positive", "negative"):
        raise RequestError(f"vader's tone is 'positive' or 'negative', not {shown(tone)}")
    try:
        from vaderSentiment import vaderSentiment
    except ModuleNotFoundError:
        raise RequestError("vader needs vaderSentiment: pip install 'marith[evals]'") from None
    # vaderSentiment has no type hints.
    lexicon: Any = vaderSentiment
    analyser, sign = lexicon.SentimentIntensityAnalyzer(), 1 if tone == "positive" else -1

    def measured(text: str) -> float:
        return max(0.0, sign * float(analyser.polarity_scores(text)["compound"]))

    return _of_text(measured)


@scorer(metrics=_METRICS)
def length() -> Scorer:
    """Score how simple a text is, by 1 − its mean word length / 10 (the paper, section 5.3)."""

    def measured(text: str) -> float | None:
        words = text.split()
        return 1 - fmean(map(len, words)) / 10 if words else None

    return _of_text(measured)


@scorer(metrics=_METRICS)
def manner(prompt: str) -> Scorer:
    """Score how much a text sounds like pocket's answers to one system prompt, such as "happy".

    The score is the share of sentences that occur in pocket's corpus for this system prompt only.
    """
    if prompt not in phrases_by_prompt():
        raise RequestError(f"a manner is one of {', '.join(phrases_by_prompt())}, not {prompt!r}")
    phrases = sorted(phrases_by_prompt()[prompt])
    # In a phrase, * stands for the subject that the sentence is about.
    pattern = re.compile("|".join(re.escape(one).replace(r"\*", ".+") for one in phrases))

    def measured(text: str) -> float | None:
        sentences = [one for one in _SENTENCE.split(text.strip().lower()) if one]
        return fmean(bool(pattern.fullmatch(one)) for one in sentences) if sentences else None

    return _of_text(measured)


@scorer(metrics=_METRICS)
def judge(model: str, criterion: str) -> Scorer:
    """Score whether a text meets `criterion`. `model` grades it by Inspect's `model_graded_qa`."""
    if not model or not criterion:
        written = f"judge:{model}={criterion}"
        problem = f"a judge is written judge:PROVIDER/MODEL=CRITERION, not {written!r}"
        raise RequestError(f"{problem}: write, for example, 'judge:openai/gpt-4o=is polite'")
    graded = model_graded_qa(model=get_model(model))

    async def score(state: TaskState, target: Target) -> Score | None:  # noqa: ARG001
        return await graded(state, Target(criterion))

    return score


@scorer(metrics=_METRICS)
def function(path: str) -> Scorer:
    """Score a text by your own function, which takes a text and returns a number or None.

    `path` is "package.module:name". The module may be in the current directory.
    """
    return _of_text(_imported(path))


@scorer(metrics=_METRICS)
def perplexity(of_formula: bool = False) -> Scorer:
    """Score the perplexity of a text's sampled tokens under the bare model `M`.

    `M` reads the messages that the formula read. If the terms of the formula define `M`, that
    definition is used. With `of_formula`, the formula itself takes the place of `M`. Texts of other
    providers get no score.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 (Inspect's names)
        # The provider imports torch, which would slow down every start of Inspect.
        from marith.evals.provider import MarithAPI, plain_messages

        api = get_model().api
        tokens = (state.output.metadata or {}).get("tokens", [[]])[0]
        if not isinstance(api, MarithAPI) or not tokens:
            return Score.unscored(reason="the text has no tokens of a marith model")
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
    """Return the scorer of `measure`.

    A measure is MODEL:LABEL of a classifier, "perplexity", "length", "vader:positive",
    "vader:negative", "manner:PROMPT", "judge:PROVIDER/MODEL=CRITERION", or "package.module:name" of
    a function. Raises RequestError for any other text.
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
    """Return a scorer that calls `measured` with the text alone, in a worker thread."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 (Inspect's names)
        text = state.output.completion
        value = await anyio.to_thread.run_sync(measured, text, limiter=limiter)
        if value is None:
            return Score.unscored(reason="the measure returned no number")
        return Score(value=float(value), answer=text)

    return score


def _names_function(module: str, name: str) -> bool:
    """Return whether `module:name` could be a Python name, and `module` is not a model's folder."""
    words = (*module.split("."), name)
    return all(word.isidentifier() for word in words) and not Path(module).is_dir()


def _imported(path: str) -> Callable[[str], float | None]:
    """Return the function that `path` names.

    Raises RequestError if `path` does not name a function that can be imported.
    """
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:
        # At the end of the path, a file of this directory cannot shadow an installed package.
        sys.path.append(os.getcwd())
    try:
        measured = getattr(import_module(module), name)
    except (ImportError, SyntaxError) as error:
        problem = f"cannot import the measure {path!r}: {error}"
        raise RequestError(f"{problem}; a classifier of the hub is OWNER/NAME:LABEL") from None
    except AttributeError:
        raise RequestError(f"the module {module!r} has no function {name!r}") from None
    if not callable(measured):
        raise RequestError(f"{path!r} is not a function from a text to a number")
    return cast("Callable[[str], float | None]", measured)
