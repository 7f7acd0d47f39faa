"""Call a runner directly: ragged texts, drafts, second turns, LoRA, vectors, early exits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from support.architectures.adapters import adapt, adaptable
from support.architectures.models import uncached
from support.hooked_model import adapter_of, by_hooks, vector
from support.runner_questions import ask, span_of
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.passes.decoder_layers import decoder_layers
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.probe import distance
from marith.scoring.passes.questions import Span
from marith.scoring.weights import lora_files
from marith.scoring.weights.lora_files import Adapter
from marith.tensor_rows import gather

MOST_REJECTED = 5
FIRST = 2  # those below begin and end texts, or pad them


def largest(differences: Iterable[float]) -> float:
    """Return the largest value, or NaN if a value is NaN."""
    return float(torch.tensor([0.0, *differences]).max())


def texts(longest: int, vocab: int) -> dict[str, list[int]]:
    """Three texts of unequal length, without padding: some models count it in no position."""
    draw = torch.Generator().manual_seed(1)
    lengths = {"long": longest, "middle": longest * 2 // 3, "short": 7}
    return {
        k: torch.randint(FIRST, vocab, (n,), generator=draw).tolist() for k, n in lengths.items()
    }


def off(runner: Runner, model: Any, questions: list[Span]) -> float:
    """Return the largest difference, in nats, between the runner and the uncached model."""
    answers = ask(runner, questions)
    wanted = [uncached(model, q.tokens)[-q.count :] for q in questions]
    pairs = zip(answers, wanted, strict=True)
    return largest(distance(answer.logprobs, want) for answer, want in pairs)


def talk(runner: Runner, model: Any, longest: int) -> float:
    """Return the largest difference of concurrent prompts, refused drafts, and a second turn."""
    given = texts(longest, runner.passes.vocab)
    worst = [off(runner, model, [span_of(lane, text) for lane, text in given.items()])]
    for rejected in range(1, MOST_REJECTED + 1):
        drafts = [7 * i + rejected + FIRST for i in range(rejected)]
        asked = [span_of(k, text, 1 + rejected, None, (), drafts) for k, text in given.items()]
        worst.append(off(runner, model, asked[:2]))
        kept = {lane: i % rejected for i, lane in enumerate(given)}  # how many drafts stand
        for lane in ("long", "middle"):
            given[lane] = [*given[lane], *drafts[: kept[lane]], 3 + rejected]
        worst.append(off(runner, model, [span_of(lane, text) for lane, text in given.items()]))
    for lane in given:
        runner.release(lane)
    turns = [span_of(f"{lane} again", [*text, *range(5, 15)]) for lane, text in given.items()]
    return largest([*worst, off(runner, model, turns)])


def adapted(runner: Runner, model: Any, folder: Path, longest: int) -> float:
    """Return the largest difference of a text with an adapter next to a text of the bare model.

    Raises ModelError if the model takes no adapter.
    """
    layers = adaptable(model)
    if not layers:
        raise ModelError("no linear layer reads texts side by side")
    merged = adapt(model, layers, folder / "adapter")
    adapter = lora_files.read(str(folder / "adapter"), runner.passes.model)
    return _beside(runner, model, adapter, longest, lambda text: uncached(merged, text))


def steered(runner: Runner, model: Any, longest: int) -> float:
    """Return the largest difference of a text with a vector next to a text of the bare model.

    Raises ModelError if the model takes no vectors.
    """
    [layers] = {name.rpartition(".")[0] for name in decoder_layers(model)}
    adapter = adapter_of(runner.passes.model, (vector(model, 1, size=0.1), 1.0))
    vocab = runner.passes.vocab

    def wanted(text: Sequence[int]) -> Tensor:
        return by_hooks(model, layers, text, adapter)[:, :vocab]

    return _beside(runner, model, adapter, longest, wanted)


def _beside(
    runner: Runner,
    model: Any,
    adapter: Adapter,
    longest: int,
    wanted: Callable[[Sequence[int]], Tensor],
) -> float:
    """Return the largest difference of a text with an adapter next to a text of the bare model.

    `wanted` returns the log-probabilities of a text with the adapter.
    """
    given, worst = texts(longest, runner.passes.vocab), []
    for tail in ([], [5], [5, 6, 7, 8], [5, 9]):
        count = max(1, len(tail) - 1)
        bare = span_of("bare", given["middle"], count, None, (), tail)
        asked = span_of(adapter.name, given["long"], count, adapter, (), tail)
        plain, changed = ask(runner, [bare, asked])
        worst.append(distance(plain.logprobs, uncached(model, bare.tokens)[-count:]))
        worst.append(distance(changed.logprobs, wanted(asked.tokens)[-count:]))
    for lane in ("bare", adapter.name):
        runner.release(lane)
    return largest(worst)


def left_early(runner: Runner, longest: int) -> float:
    """Return the largest difference after a middle layer. Raises ModelError without early exits."""
    passes, worst = runner.passes.read_by(runner.passes.model), []
    layer, text = max(1, passes.exits.layers // 2), texts(longest, passes.vocab)["middle"]
    for tail in ([], [5], [6, 7, 8]):
        asked = span_of("early", text, max(1, len(tail)), None, (layer,), tail)
        [answer] = ask(runner, [asked])
        ids = torch.tensor([asked.tokens])
        with torch.inference_mode():
            _, [early] = passes.run([None], asked.count, [layer], input_ids=ids)
        worst.append(distance(gather(answer.exits[layer]), passes.logprobs(early)))
    runner.release("early")
    return largest(worst)
