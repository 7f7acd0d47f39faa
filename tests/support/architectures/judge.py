"""Compare marith with transformers' uncached log-probabilities for one model."""

from __future__ import annotations

import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from support.architectures.models import endless, is_read_as_long, uncached, words
from support.architectures.talks import adapted, largest, left_early, steered, talk
from support.held_passes import scorer_of

import marith
from marith.errors import ModelError
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.probe import windows
from marith.scoring.passes.states.state_runner import StateRunner

BEYOND = 30  # tokens that a text has more than the widest window
SPECULATION = (None, "auto", marith.Plan.factors({"x": 3}), marith.Plan.drafts("M", length=3))


class Verdict(NamedTuple):
    """The runner of a model, the largest difference, and the features that it offers."""

    kind: str  # "cached", "states" or "uncached"
    worst: float  # nats
    said: str  # why it has no cache
    lora: bool = False
    vectors: bool = False
    early_exit: bool = False

    @property
    def cached(self) -> bool:
        """True if a token costs less than reading the whole text."""
        return self.kind != "uncached"


def kind_of(runner: Runner) -> str:
    """Return the name of a runner in the table."""
    if runner.plain:
        return "uncached"
    return "states" if isinstance(runner, StateRunner) else "cached"


def load(model: Any, folder: str = "", **options: Any) -> tuple[marith.Engine, str]:
    """Return an engine, and the warning if the model is slow.

    The model is loaded from memory, or its saved copy from `folder`.
    """
    if is_read_as_long(model):
        options["context_length"] = model.config.get_text_config().max_position_embeddings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if folder:
            engine = marith.Engine.load(folder, device="cpu", dtype="float32", **options)
        else:
            engine = marith.Engine.load(model, tokenizer=endless(), **options)
    return engine, " ".join(str(one.message) for one in caught if "slower" in str(one.message))


def judge(model: Any, folder: str = "", long: int = 90, runs: int = 4, **options: Any) -> Verdict:
    """Load a model, or its saved copy in `folder`, and compare requests with the uncached model."""
    engine, said = load(model, folder, **options)
    with engine:
        worst = _asked(engine, model, long, runs)
        return Verdict(kind_of(scorer_of(engine).runner), worst, said)


def judge_whole(model: Any, folder: str = "") -> Verdict:
    """Compare all that `judge` compares, direct calls, LoRA, vectors and early exits."""
    engine, said = load(model, folder)
    longest = BEYOND + max([60, *(w for w in windows(model.config, 512))])
    with engine, torch.inference_mode(False):
        worst = [_asked(engine, model, longest, len(SPECULATION))]
        runner = scorer_of(engine).runner
        worst.append(talk(runner, model, longest))
        offered = dict.fromkeys(("lora", "vectors", "early_exit"), True)
        with tempfile.TemporaryDirectory() as place:
            try:
                worst.append(adapted(runner, model, Path(place), longest))
            except ModelError:
                offered["lora"] = False
        try:
            worst.append(steered(runner, model, longest))
        except ModelError:
            offered["vectors"] = False
        try:
            worst.append(left_early(runner, longest))
        except ModelError:
            offered["early_exit"] = False
        return Verdict(kind_of(runner), largest(worst), said, **offered)


def _asked(engine: marith.Engine, model: Any, long: int, runs: int) -> float:
    """Return the largest difference of concurrent requests, of queries and of scores.

    The uncached model runs after all requests have ended, because some models keep values of a pass
    in their modules.
    """
    prompt, system = words(6, 5), words(long, 2)
    a, b = engine.encode(prompt), engine.encode(f"{system}\n{prompt}")

    def answer(seed: int) -> marith.Completion:
        return engine.generate(
            prompt, "0.6*M + 0.4*x", {"x": system}, marith.Sampling(seed=seed, temperature=0.8),
            marith.Stop(8 + 3 * seed), speculation=SPECULATION[seed % 4], logprobs=0,
        )  # fmt: skip

    def off(out: marith.Completion) -> float:
        own = list(out.tokens)
        first, second = uncached(model, a + own)[len(a) - 1 :], uncached(model, b + own)
        want = torch.log_softmax(0.6 * first + 0.4 * second[len(b) - 1 :], dim=-1)
        pairs = zip(range(len(own)), own, out.logprobs or (), strict=True)
        return largest(abs(float(want[i, token]) - one.logprob) for i, token, one in pairs)

    with ThreadPoolExecutor(runs) as pool:
        outs = list(pool.map(answer, range(runs)))
    worst = [off(out) for out in outs]
    worst.append(float((engine.next_logprobs(prompt) - uncached(model, a)[-1]).abs().max()))
    got = torch.tensor(engine.score(prompt, b[:long]))
    want = uncached(model, a + b[:long])[len(a) - 1 : -1].gather(1, torch.tensor([b[:long]]).T)
    return largest([*worst, float((got - want[:, 0]).abs().max())])
