"""Steps of fixed shapes give the results of ordinary passes, and can be captured."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hooked_model import adapter_of, vector
from support.runner_questions import CLOSE, CONTEXT, VOCAB, ask, span_of, text, uncached
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.lora import Adapted
from marith.scoring.passes.rectangle import cuda_graphs as capture_module
from marith.scoring.passes.rectangle.cuda_graphs import Captured
from marith.scoring.passes.rectangle.rectangle_cache import KVCache
from marith.testing import FAMILIES, tiny_model

LANES = 9
cached_model = cache(tiny_model)
lanes = st.sets(st.integers(0, LANES - 1), min_size=1)


def captured_runner(model: Any, context_length: int = CONTEXT) -> CachedRunner:
    runner = start_runner(model, VOCAB, context_length, capture=True)
    assert not runner.plain
    assert runner.captured is not None
    return runner


def shapes_of(model: Any) -> list[tuple[int, int, int]]:
    """(rows, width, positions seen) of every pass from here on."""
    shapes: list[tuple[int, int, int]] = []

    def note(_: Any, args: Any, given: dict[str, Any]) -> None:
        texts, width = given["input_ids"].shape
        # A pass over fresh texts has no mask, and sees its own positions.
        mask = given["attention_mask"]
        shapes.append((texts, width, width if mask is None else mask.shape[-1]))

    model.register_forward_pre_hook(note, with_kwargs=True)
    return shapes


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets so small that texts of a few tokens outgrow them, and few kept."""
    monkeypatch.setattr(capture_module, "LEAST", 4)
    monkeypatch.setattr(capture_module, "MOST", 2)


@pytest.mark.parametrize(
    ("family", "attention"), [*((family, "sdpa") for family in FAMILIES), ("gpt2", "eager")]
)
@pytest.mark.usefixtures("narrow")
@settings(max_examples=5)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=LANES, max_size=LANES),
    steps=st.lists(st.tuples(lanes, st.one_of(st.just(set()), lanes)), min_size=1, max_size=12),
)
def test_steps_of_lanes_that_join_pause_and_leave_are_answered_as_by_ordinary_passes(
    family: str, attention: str, lengths: list[int], steps: list[tuple[set[int], set[int]]]
) -> None:
    model = gentle(family, attention)
    fixed, ordinary = captured_runner(model), start_runner(model, VOCAB, CONTEXT, capture=False)
    texts = {i: [i, *text(length)] for i, length in enumerate(lengths)}
    for speaking, leaving in steps:
        asked = []
        for lane in sorted(speaking):
            texts[lane] = [*texts[lane], (7 * lane + len(texts[lane])) % VOCAB]
            asked.append(span_of(lane, texts[lane]))
        for got, want in zip(ask(fixed, asked), ask(ordinary, asked), strict=True):
            assert got.cached == want.cached
            torch.testing.assert_close(got.logprobs, want.logprobs, atol=1e-5, rtol=0)
        for lane in leaving:
            texts[lane] = [lane, *text(lengths[lane])]
            fixed.release(lane)
            ordinary.release(lane)
    everyone = [span_of(lane, [*tokens, 5]) for lane, tokens in texts.items()]
    for question, answer in zip(everyone, ask(fixed, everyone), strict=True):
        want = uncached(model, question.tokens)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-5, rtol=0)


@cache
def gentle(family: str, attention: str) -> Any:
    model = tiny_model(family, sharpness=1.0)
    model.set_attn_implementation(attention)
    return model


@pytest.mark.usefixtures("narrow")
def test_steps_have_few_shapes_however_many_tokens_they_add() -> None:
    model = tiny_model()
    runner, shapes = captured_runner(model), shapes_of(model)
    for length in range(2, 60):
        ask(runner, [span_of(i, [i, *text(length)]) for i in range(5)])
    assert {shape for shape in shapes if shape[1] == 1} == {(8, 1, n) for n in (4, 8, 16, 32, 64)}
    assert runner.captured is not None
    assert len(runner.captured._steps) == 2


@pytest.mark.parametrize("waiting", [0, 1, 3])
def test_padding_leaves_the_keys_of_lanes_beside_and_between_as_they_are(waiting: int) -> None:
    model = cached_model("gpt2")
    runner = captured_runner(model)
    held = [span_of(i, [i, *text(20)]) for i in range(4)]
    ask(runner, held)
    keys = runner.lanes.cache.layers[0].keys[waiting, :, : runner.lanes.cache.capacity]
    before = keys.clone()
    for length in range(21, 30):
        asked = [span_of(i, [i, *text(length)]) for i in range(4) if i != waiting]
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens)
            torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)
    assert runner.captured is not None
    assert {(size, near) for size, _, near, _ in runner.captured._steps} == {(4, True)}
    assert torch.equal(keys, before)
    [answer] = ask(runner, [span_of(waiting, [waiting, *text(21)])])
    assert answer.cached == 21
    want = uncached(model, [waiting, *text(21)])
    torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_steps_go_on_while_rows_and_room_grow(family: str) -> None:
    model = tiny_model(family, context_length=300)
    runner = captured_runner(model, 300)
    for length in range(60, 70):  # the cache begins with 64 positions
        asked = [span_of(i, [i % VOCAB, *text(length)]) for i in range(length - 58)]
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens)
            torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


def test_what_was_recorded_is_dropped_when_the_cache_moves() -> None:
    kept = KVCache(2)
    kept.resize(16, 64)
    captured = Captured(Adapted(cached_model("llama")), kept, LayerMasks({"": None}))
    with torch.inference_mode():
        for rows in ([0, 1], [0, 1, 2], [14, 15]):
            captured.step(rows, rows, [0] * len(rows))
        assert len(captured._steps) == 3
        kept.resize(16, 64)  # stays where it is
        captured.step([0, 1], [1, 2], [1, 1])
        assert len(captured._steps) == 3
        kept.resize(16, 128)
        captured.step([0, 1], [1, 2], [1, 1])
    assert len(captured._steps) == 1


class Watch(TorchFunctionMode):
    """The devices of all tensors that functions take and give; Python's numbers are the host's."""

    def __init__(self) -> None:
        super().__init__()
        self.devices: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        met = tree_leaves((args, kwargs, out))
        self.devices |= {value.device.type for value in met if isinstance(value, Tensor)}
        if func in (torch.tensor, torch.as_tensor):
            self.devices.add("cpu")
        return out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("attention", "rows"), [("sdpa", [2, 4, 5]), ("sdpa", [2, 4, 30]), ("eager", [0, 1, 2])]
)
def test_nothing_passes_between_host_and_device_within_a_step(
    family: str, attention: str, rows: list[int]
) -> None:
    model = tiny_model(family).to("meta")  # where to read a number is an error
    model.set_attn_implementation(attention)
    kept = KVCache(2)
    kept.resize(32, 64)
    captured = Captured(Adapted(model), kept, LayerMasks.of_model(model))
    with torch.inference_mode():
        captured.step(rows, [1, 2, 3], [4, 0, 60])
        [step] = captured._steps.values()
        with Watch() as watch:
            captured._pass(step)
        assert watch.devices == {"meta"}
        with Watch() as watch:  # an ordinary pass tells the device its rows
            kept.aim(rows, step.inputs[:3, :1], 61)
        assert watch.devices == {"cpu", "meta"}


def test_nothing_passes_between_host_and_device_within_a_step_with_vectors() -> None:
    model: Any = tiny_model()
    adapters = [adapter_of(model, (vector(model, 1), strength)) for strength in (1.0, -0.5)]
    model = model.to("meta")
    kept = KVCache(2)
    kept.resize(32, 64)
    captured = Captured(Adapted(model), kept, LayerMasks.of_model(model))
    with torch.inference_mode():
        captured.step([2, 4, 5], [1, 2, 3], [4, 0, 60], [adapters[0], None, adapters[1]])
        [step] = captured._steps.values()
        with Watch() as watch:
            captured._pass(step)
    assert watch.devices == {"meta"}


def refuse_padding(model: Any, args: Any, given: dict[str, Any]) -> None:
    if given["input_ids"].shape == (4, 1):
        raise RuntimeError("operation not permitted when stream is capturing")


def test_a_failing_capture_is_logged_once_and_never_tried_again() -> None:
    model = tiny_model()
    runner = captured_runner(model)
    model.register_forward_pre_hook(refuse_padding, with_kwargs=True)
    with pytest.warns(UserWarning, match="without captured passes") as said:
        for length in range(5, 12):
            asked = [span_of(i, [i, *text(length)]) for i in range(3)]
            for question, answer in zip(asked, ask(runner, asked), strict=True):
                want = uncached(model, question.tokens)
                torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)
    assert len(said) == 1
    assert not runner.plain


def speak_up(model: Any, args: Any, given: dict[str, Any], out: Any) -> None:
    if given["input_ids"].shape == (4, 1):
        out.logits[..., 3] += 1


def test_captured_steps_with_other_results_are_not_used() -> None:
    model = tiny_model()
    model.register_forward_hook(speak_up, with_kwargs=True)
    with pytest.warns(UserWarning, match="without captured passes.*differ"):
        runner = start_runner(model, VOCAB, CONTEXT, capture=True)
    assert not runner.plain
    for length in (5, 6):
        asked = [span_of(i, [i, *text(length)]) for i in range(3)]
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens)
            torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
@pytest.mark.parametrize("family", FAMILIES)
def test_replayed_graphs_give_the_results_of_the_uncached_model(family: str) -> None:
    model, there = tiny_model(family), tiny_model(family).to("cuda")
    runner, shapes = start_runner(there, VOCAB, CONTEXT), shapes_of(there)
    for length in range(9, 60):
        lanes = range(3) if length % 7 else range(1, 6)
        asked = [span_of(i, [i, *text(length)]) for i in lanes]
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens)
            torch.testing.assert_close(answer.logprobs.cpu(), want, atol=1e-3, rtol=0)
    assert runner.captured is not None
    assert runner.passes.count > 2 * len(shapes)
