"""Whether cached passes return what the uncached model does: asked once, when a model is loaded.

What can be wrong is a model's structure: masks and positions that it computes for itself. So texts
of unequal length are read side by side, beyond every window that the configuration names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marith.scoring.passes.passes import Answer, Asked

if TYPE_CHECKING:
    from marith.scoring.passes.cached_runner import CachedRunner
    from marith.scoring.passes.state_runner import StateRunner

SHORT = 9  # tokens of a text without a window
WIDE = 64  # a wider window is probed on a small model instead
# Lengths by row, of so many questions one after another, and for how many positions they ask.
ROUNDS = (
    ({0: 5, 1: 3, 2: 4}, 1),
    ({0: 6, 1: 4, 2: 5}, 1),
    ({0: 7, 1: 5, 2: 6}, 1),
    ({1: 6, 2: 7}, 1),
    ({0: 9, 1: 8}, 2),
    ({0: 8, 1: 7}, 1),
)
WINDOW = 8  # tokens, of the small model
_VOCAB = 64
_WINDOWED = re.compile(r"window|sliding|chunk|local_att|block_size")
_COUNTED = re.compile(r"layers|pattern|num_|feed_forward")  # no window, though so called


def why_inexact(model: Any, context_length: int, differ: Callable[[Any, int], str]) -> str:
    """Why the model needs to run without a cache; empty if it does not.

    `differ(model, extra)` says how cached passes differ from the uncached ones of a model, on
    texts of which the longest has `extra` tokens more than `SHORT`.
    """
    widest = max(windows(model.config, context_length), default=0)
    room = max(0, context_length - SHORT)
    if widest <= WIDE:
        return differ(model, min(widest, room))
    if reason := differ(model, 0):
        return reason
    try:
        reason = differ(miniature(model), min(WINDOW, room))
    except Exception as error:  # whatever a model finds wrong with sizes that are not its own
        return f"its window of {widest} tokens cannot be checked ({type(error).__name__}: {error})"
    return reason and f"beyond its window of {widest} tokens {reason}"


def compare(runner: CachedRunner | StateRunner, extra: int = 0) -> str:
    """How a runner's cached passes differ from the uncached model's, over ragged rows."""
    passes, draw = runner.passes, torch.Generator().manual_seed(0)
    texts = torch.randint(0, passes.vocab, (3, SHORT + extra), generator=draw)
    try:
        want = torch.cat([passes.uncached(text[None]) for text in texts])
        shapes = [passes.uncached(texts[:, :width]) for width in (SHORT, 1)]
        noise = max(distance(logprobs, want[:, : logprobs.shape[1]]) for logprobs in shapes)
        tolerated = tolerance(noise, want[0, -1], passes.model.dtype)
        for rows, count in _rounds(extra):
            asked = [Asked(i, texts[i, :end].tolist(), count) for i, end in rows.items()]
            answers = _answers(runner, asked)
            for i, end in rows.items():
                worst = distance(answers[i].logprobs, want[i, end - count : end])
                if not worst <= tolerated:  # NaN is not either
                    return f"cached and uncached passes differ by {worst:.2g}"
    except Exception as error:  # whatever a model raises that does not take our cache
        return f"its code does not take a cache of marith ({type(error).__name__}: {error})"
    finally:
        runner.forget()
    return ""


def _answers(runner: CachedRunner | StateRunner, asked: list[Asked]) -> dict[Hashable, Answer]:
    """All answers by lane, in as many calls as they take."""
    answers: dict[Hashable, Answer] = {}
    while left := [one for one in asked if one.lane not in answers]:
        pairs = zip(left, runner.ask(left), strict=True)
        answers |= {one.lane: answer for one, answer in pairs if answer is not None}
    return answers


def _rounds(extra: int) -> Iterator[tuple[dict[int, int], int]]:
    """`ROUNDS` for texts of which the first is longer by `extra`, the third by half of that."""
    for rows, count in ROUNDS:
        yield {i: length + (extra, 0, extra // 2)[i] for i, length in rows.items()}, count


def tolerance(noise: float, values: Tensor, dtype: torch.dtype) -> float:
    """How far apart two right answers may lie, of which `values` are an example.

    Three times what the uncached model differs by from itself between two batch shapes (`noise`),
    and at least 0.02 of what its values spread over: between the quartiles, since a few tokens far
    out would widen other measures; and no less than three of the dtype's own steps at a value of
    middling size: two kernels for the same attention differ by as much, where batches of two
    shapes go through one and do not. In float32 that is no more than 0.001; never more than 0.5.
    """
    finite = values[values.isfinite()].float().flatten()
    low, high = finite.quantile(torch.tensor([0.25, 0.75], device=finite.device))
    step = torch.finfo(dtype).eps * float(finite.abs().median())
    least = max(0.02 * float(high - low), 3 * step)
    if dtype == torch.float32:
        least = min(least, 1e-3)
    return min(max(3 * noise, least, 1e-5), 0.5)


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference; NaN if one is. Equal infinities do not differ."""
    return float((a - b).masked_fill(a == b, 0).abs().max())


def windows(config: Any, context_length: int) -> Iterator[int]:
    """Every width below the context that the configuration names as a window, whatever its key."""
    for key in _window_keys(config.get_text_config()):
        value = getattr(config.get_text_config(), key)
        for width in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(width, int) and 1 < width < context_length:
                yield width


def _window_keys(text: Any) -> list[str]:
    return [key for key in vars(text) if _WINDOWED.search(key) and not _COUNTED.search(key)]


def miniature(model: Any) -> Any:
    """A model of the same class and configuration with small windows and one layer of each kind.

    At least two layers, random weights, the same for the same configuration.
    """
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    count = text.num_hidden_layers
    lists = {k: v for k, v in vars(text).items() if isinstance(v, list) and len(v) == count}
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
        setattr(text, key, 0)  # those of the whole vocabulary may lie outside
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        small = type(model)(config).eval()
        for weight in small.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    return small.to(model.device)
