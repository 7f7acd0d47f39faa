"""Steps of fixed shapes with vectors equal transformers with hooks, and can be captured."""

from __future__ import annotations

import gc
from functools import cache
from typing import Any
from weakref import ref

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hooked_model import adapter_of, by_hooks, vector
from support.runner_questions import CONTEXT, VOCAB, ask, span_of, text

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.lora import MOST, Adapted
from marith.scoring.passes.rectangle.cuda_graphs import Captured
from marith.scoring.passes.rectangle.rectangle_cache import KVCache
from marith.scoring.weights.lora_files import Adapter
from marith.testing import tiny_model

LANES, CLOSE = 4, 1e-4
strengths = st.sampled_from([None, 1.0, -0.5, 0.25])


@cache
def model() -> Any:
    return tiny_model(sharpness=1.0)


@cache
def adapter(strength: float | None, where: str = "all") -> Adapter | None:
    if strength is None:
        return None
    push = vector(model(), 1), vector(model(), 2, layers=[1])
    return adapter_of(model(), (push[0], strength), (push[1], -strength), where=where)


def captured_of(runner: Any) -> Captured:
    assert isinstance(runner, CachedRunner)
    assert isinstance(runner.captured, Captured)
    return runner.captured


@settings(max_examples=25)
@given(
    lanes=st.lists(
        st.tuples(strengths, st.sampled_from(["all", "answer"]), st.integers(1, 20)),
        min_size=LANES,
        max_size=LANES,
    ),
    steps=st.lists(st.sets(st.integers(0, LANES - 1), min_size=1), min_size=1, max_size=6),
)
def test_steps_with_vectors_equal_transformers_with_hooks(
    lanes: list[tuple[float | None, str, int]], steps: list[set[int]]
) -> None:
    runner = start_runner(model(), VOCAB, CONTEXT, capture=True)
    prompts = [[lane, *text(length)] for lane, (_, _, length) in enumerate(lanes)]
    tails: list[list[int]] = [[] for _ in lanes]
    for speaking in steps:
        asked = []
        for lane in sorted(speaking):
            tails[lane].append((7 * lane + len(tails[lane])) % VOCAB)
            own = adapter(*lanes[lane][:2])
            asked.append(span_of(lane, prompts[lane], 1, own, continuation=[*tails[lane]]))
        for one, answer in zip(asked, ask(runner, asked), strict=True):
            own = one.lane.adapter
            start = own.shifted_from(len(one.lane.prompt)) if own else 0
            want = by_hooks(model(), "model.layers", one.tokens, own, start)[-1]
            assert float((answer.logprobs[-1] - want).abs().max()) < CLOSE
    steered = any(lanes[lane][0] is not None for speaking in steps for lane in speaking)
    assert steered or not any(step.with_vectors for step in captured_of(runner)._steps.values())


def test_a_text_without_vectors_has_the_same_bits_beside_texts_with_vectors() -> None:
    logits = []
    for own in (adapter(None), adapter(1.0)):
        runner = start_runner(model(), VOCAB, CONTEXT, capture=True)
        for length in (8, 9, 10):
            asked = [span_of(0, text(length)), span_of(1, [1, *text(length)], 1, own)]
            logits.append(ask(runner, asked)[0].logprobs)
        kinds = {step.with_vectors for step in captured_of(runner)._steps.values()}
        assert kinds == {own is not None}
    assert all(torch.equal(*pair) for pair in zip(logits[1:3], logits[4:], strict=True))


def captured_steps() -> Captured:
    kept = KVCache(2)
    kept.resize(4, 64)
    return Captured(Adapted(model()), kept, LayerMasks.of_model(model()))


def test_other_strengths_are_not_captured_anew() -> None:
    captured, push, kept = captured_steps(), vector(model(), 1), []
    seen: dict[int, object] = {}
    with torch.inference_mode():
        for i in range(2 * MOST):
            kept.append(adapter_of(model(), (push, i / MOST - 1)))
            logits = captured.step([0], [i % VOCAB], [0], [kept[-1]])
            want = by_hooks(model(), "model.layers", [i % VOCAB], kept[-1])
            assert float((torch.log_softmax(logits[0], -1) - want).abs().max()) < CLOSE
            [step] = captured._steps.values()
            assert seen.setdefault(0, step) is step


def test_a_step_is_captured_anew_when_its_tables_are_replaced() -> None:
    own = adapter_of(model(), (vector(model(), 1, layers=[0]), 1.0))
    other = adapter_of(model(), (vector(model(), 2, layers=[1]), 1.0))
    captured = captured_steps()
    with torch.inference_mode():
        captured.step([0], [5], [0])
        captured.step([0], [5], [0], [own])
        plain, steered = captured._steps.values()
        assert (plain.with_vectors, steered.with_vectors) == (False, True)
        captured.step([0], [5], [0], [other])
        assert plain in captured._steps.values()
        assert steered not in captured._steps.values()
        # The tree has hooks after both layers now.
        [_, later] = captured._steps.values()
        captured.step([0], [5], [0], [own])
        assert [*captured._steps.values()] == [plain, later]


def test_the_first_step_after_a_new_tree_drops_the_old_one() -> None:
    """The new tree is made by another pass, and the step has no vectors."""
    own = adapter_of(model(), (vector(model(), 1, layers=[0]), 1.0))
    other = adapter_of(model(), (vector(model(), 2, layers=[1]), 1.0))
    captured = captured_steps()
    with torch.inference_mode():
        captured.step([0], [5], [0], [own])
        old = ref(captured.adapted.tree)
        captured.adapted.forward([other], input_ids=torch.tensor([[5]]))
        captured.step([0], [5], [0])
    gc.collect()
    assert old() is None
    assert [step.with_vectors for step in captured._steps.values()] == [False]
