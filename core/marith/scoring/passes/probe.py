"""The comparison of cached passes with the uncached model, when a model is loaded.

Errors come from a model's structure: from masks and positions that it computes for itself. So the
texts of one pass have unequal lengths, and they are longer than every window that the configuration
names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from marith.formula.meaning.binding import BARE_MODEL
from marith.scoring.passes.passes import ModelPasses, Runner
from marith.scoring.passes.questions import Answer, RequestLane, Span

# The longest text has this number of tokens if the model has no window.
SHORT = 9
# A wider window is probed on a small model, whose windows are narrow.
WIDE = 64
# Each call has the lengths of the texts by row, and the number of positions that are asked.
ROUNDS = (
    ({0: 5, 1: 3, 2: 4}, 1),
    ({0: 6, 1: 4, 2: 5}, 1),
    ({0: 7, 1: 5, 2: 6}, 1),
    ({1: 6, 2: 7}, 1),
    ({0: 9, 1: 8}, 2),
    ({0: 8, 1: 7}, 1),
)
# The windows of the small model have this number of tokens.
WINDOW = 8
_VOCAB = 64
_WINDOWED = re.compile(r"window|sliding|chunk|local_att|block_size")
# Names that match this pattern too are not widths of windows.
_COUNTED = re.compile(r"layers|pattern|num_|feed_forward")


def why_inexact(model: Any, context_length: int, differ: Callable[[Any, int], str]) -> str:
    """Return why the model must run without a cache; "" if it may run with a cache.

    `differ(model, extra)` returns how the cached passes of a model differ from its uncached passes.
    The longest text that it compares has `SHORT + extra` tokens.
    """
    widest = max(windows(model.config, context_length), default=0)
    room = max(0, context_length - SHORT)
    if widest <= WIDE:
        return differ(model, min(widest, room))
    if reason := differ(model, 0):
        return reason
    try:
        reason = differ(miniature(model), min(WINDOW, room))
    # The model's code may raise any error, because it was not written for the small model's sizes.
    except Exception as error:
        return f"its window of {widest} tokens cannot be checked ({type(error).__name__}: {error})"
    return reason and f"beyond its window of {widest} tokens {reason}"


def compare(runner: Runner, passes: ModelPasses, extra: int = 0) -> str:
    """Return how a runner's cached passes differ from uncached `passes`; "" if they do not.

    The rows that are compared have unequal lengths.
    """
    draw = torch.Generator().manual_seed(0)
    texts = torch.randint(0, passes.vocab, (3, SHORT + extra), generator=draw)
    try:
        want = torch.cat([passes.uncached(text[None]) for text in texts])
        shapes = [passes.uncached(texts[:, :width]) for width in (SHORT, 1)]
        noise = max(distance(logprobs, want[:, : logprobs.shape[1]]) for logprobs in shapes)
        tolerated = tolerance(noise, want[0, -1], passes.model.dtype)
        lanes = [RequestLane(()) for _ in texts]
        for rows, count in _rounds(extra):
            asked = [
                Span(BARE_MODEL, lanes[i], texts[i, :end].tolist(), count)
                for i, end in rows.items()
            ]
            answers = _answers(runner, asked)
            for i, end in rows.items():
                worst = distance(answers[lanes[i]].logprobs, want[i, end - count : end])
                # The comparison is negated so that NaN counts as a difference.
                if not worst <= tolerated:
                    return f"cached and uncached passes differ by {worst:.2g}"
    # The model's code may raise any error, if it does not take the cache of marith.
    except Exception as error:
        return f"its code does not take a cache of marith ({type(error).__name__}: {error})"
    finally:
        runner.forget()
    return ""


def _answers(runner: Runner, asked: list[Span]) -> dict[RequestLane, Answer]:
    """Ask until all questions are answered, and return the answers by lane."""
    answers: dict[RequestLane, Answer] = {}
    while left := [one for one in asked if one.lane not in answers]:
        pairs = zip(left, runner.ask(left), strict=True)
        answers |= {one.lane: answer for one, answer in pairs if answer is not None}
    return answers


def _rounds(extra: int) -> Iterator[tuple[dict[int, int], int]]:
    """Yield `ROUNDS`, with the first text longer by `extra` and the third by half of `extra`."""
    for rows, count in ROUNDS:
        yield {i: length + (extra, 0, extra // 2)[i] for i, length in rows.items()}, count


def tolerance(noise: float, values: Tensor, dtype: torch.dtype) -> float:
    """Return how much two correct answers may differ by rounding. `values` are such an answer.

    The result is the largest of three numbers:

    - 3 · `noise`, where `noise` is the difference between uncached passes of two batch shapes;
    - 0.02 times the interquartile range of `values`, because a few extreme tokens would widen other
      measures of spread;
    - three steps of `dtype` at the median absolute value, because two kernels for attention differ
      by that much, even if both batch shapes use the same kernel.

    In float32 the last two numbers are at most 0.001. The result is between 1e-5 and 0.5.
    """
    finite = values[values.isfinite()].float().flatten()
    low, high = finite.quantile(torch.tensor([0.25, 0.75], device=finite.device))
    step = torch.finfo(dtype).eps * float(finite.abs().median())
    least = max(0.02 * float(high - low), 3 * step)
    if dtype == torch.float32:
        least = min(least, 1e-3)
    return min(max(3 * noise, least, 1e-5), 0.5)


def distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, or NaN if one is NaN. Equal infinities do not differ."""
    return float((a - b).masked_fill(a == b, 0).abs().max())


def windows(config: Any, context_length: int) -> Iterator[int]:
    """Yield every window width below the context length in the configuration, under any key."""
    for key in _window_keys(config.get_text_config()):
        value = getattr(config.get_text_config(), key)
        for width in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(width, int) and 1 < width < context_length:
                yield width


def _window_keys(text: Any) -> list[str]:
    return [key for key in vars(text) if _WINDOWED.search(key) and not _COUNTED.search(key)]


def miniature(model: Any) -> Any:
    """Return a model of the same class and configuration, with small windows and few layers.

    It has one layer of each kind, and at least two layers. Its weights are random, and equal for
    equal configurations.
    """
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    count = text.num_hidden_layers
    lists = {k: v for k, v in vars(text).items() if isinstance(v, list) and len(v) == count}
    # The order is reversed so that the first layer of each kind is the one that stays.
    kinds = {repr(kind): i for i, kind in reversed([*enumerate(zip(*lists.values(), strict=True))])}
    layers = sorted({*kinds.values(), *range(min(2, count))})
    for key, value in lists.items():
        setattr(text, key, [value[i] for i in layers])
    for key in _window_keys(text):
        if isinstance(width := getattr(text, key), int) and width > WINDOW:
            setattr(text, key, WINDOW)
    text.num_hidden_layers = len(layers)
    text.vocab_size = min(_VOCAB, text.vocab_size)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        # The original numbers may lie outside of the small vocabulary.
        setattr(text, key, 0)
    # The caller's random numbers must not depend on the probe.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        small = type(model)(config).eval()
        for weight in small.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    return small.to(model.device)
