"""Vectors beside each other: each row equals transformers with a hook after each layer."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.architectures import build
from support.architectures.adapters import adapt, adaptable
from support.hooked_model import adapter_of, by_hooks, hooked, vector
from support.runner_questions import ask, span_of
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.choose_runner import start_runner
from marith.scoring.passes import lora as lora_passes
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.decoder_layers import decoder_layers
from marith.scoring.passes.lora import MOST, Adapted
from marith.scoring.passes.passes import ModelPasses
from marith.scoring.passes.plain_runner import PlainRunner
from marith.scoring.passes.shifts import NOTHING, Shifts
from marith.scoring.weights.lora_files import Adapter, read
from marith.scoring.weights.shared_weights import shared_copy
from marith.testing import tiny_model

VOCAB, CONTEXT = 28, 128
CLOSE = 1e-4
# The names of the decoder layers are written here by hand, and not found as marith finds them.
LAYERS = {
    "llama": "model.layers", "qwen2": "model.layers", "gemma3_text": "model.layers",
    "gpt_neox": "gpt_neox.layers", "mixtral": "model.layers", "qwen3_next": "model.layers",
    "falcon_h1": "model.layers", "gpt2": "transformer.h", "mamba": "backbone.layers",
    "rwkv": "rwkv.blocks", "qwen3_moe": "model.layers", "bloom": "transformer.h",
}  # fmt: skip
TAKEN = ("llama", "qwen2", "gemma3_text", "gpt_neox", "mixtral", "qwen3_next", "falcon_h1", "mamba")


def text(length: int, seed: int = 0) -> list[int]:
    return torch.randint(
        2, VOCAB, (length,), generator=torch.Generator().manual_seed(seed)
    ).tolist()


@pytest.mark.parametrize("name", LAYERS)
def test_decoder_layers_are_found(name: str) -> None:
    model = tiny_model(name) if name == "gpt2" else build(name)
    count = model.config.get_text_config().num_hidden_layers
    assert decoder_layers(model) == tuple(f"{LAYERS[name]}.{i}" for i in range(count))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gemma3n_text", "Gemma3nForCausalLM"), ("reformer", "ReformerModelWithLMHead")],
)
def test_a_model_whose_layers_return_no_row_a_token_is_refused(name: str, kind: str) -> None:
    with pytest.raises(ModelError, match=rf"vectors need decoder layers .* {kind} has"):
        decoder_layers(build(name))


@pytest.mark.parametrize("where", ["all", "answer"])
@pytest.mark.parametrize("name", TAKEN)
def test_every_text_equals_transformers_with_hooks(name: str, where: str) -> None:
    """Prompts, steps, refused drafts and another turn, beside a bare text, with a cache."""
    model = build(name)
    runner = start_runner(model, model.config.get_text_config().vocab_size, CONTEXT)
    parts = vector(model, 1), vector(model, 2)
    steered_by = {
        "bare": None,
        "one": adapter_of(model, (parts[0], 1.0), where=where),
        "other": adapter_of(model, (parts[0], -0.5), where=where),
        "both": adapter_of(model, (parts[0], 0.7), (parts[1], -0.4), where=where),
    }
    prompts = {lane: text(9 + 5 * i, i) for i, lane in enumerate(steered_by)}
    plain = by_hooks(model, LAYERS[name], prompts["one"], None)
    pushed = by_hooks(model, LAYERS[name], prompts["one"], steered_by["one"])
    assert float((plain - pushed).abs().max()) > 0.1
    for tail, count in (([], 1), ([5], 1), ([5, 6, 7, 8], 3), ([5, 9], 1), ([5, 9, 4], 1)):
        asked = [
            span_of(lane, prompts[lane], count, adapter, continuation=tail)
            for lane, adapter in steered_by.items()
        ]
        for one, answer in zip(asked, ask(runner, asked), strict=True):
            start = len(one.lane.prompt) - 1 if where == "answer" else 0
            want = by_hooks(model, LAYERS[name], one.tokens, one.lane.adapter, start)[-count:]
            vocab = answer.logprobs.shape[-1]
            assert float((answer.logprobs - want[:, :vocab]).abs().max()) < CLOSE


@cache
def tiny() -> tuple[Any, list[Adapter | None]]:
    model = tiny_model()
    a, b = vector(model, 1), vector(model, 2, layers=[1])
    made = [
        adapter_of(model, (a, 1.0)),
        adapter_of(model, (b, 2.0)),
        adapter_of(model, (a, 1), (b, -1)),
    ]
    return model, [None, *made]


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4))
def test_other_rows_and_earlier_rows_do_not_change_a_row(passes: list[list[int]]) -> None:
    model, adapters = tiny()
    adapted = Adapted(model)
    for rows in passes:
        ids = torch.tensor([text(7, seed) for seed in range(len(rows))])
        with torch.inference_mode():
            got = adapted.forward([adapters[i] for i in rows], input_ids=ids).logits
            bare = model(input_ids=ids).logits
        for row, i in enumerate(rows):
            if adapters[i] is None:
                # Not only close: a row without vectors has the bits of a pass without any.
                assert torch.equal(got[row], bare[row])
            want = by_hooks(model, "model.layers", ids[row].tolist(), adapters[i])
            assert float((torch.log_softmax(got[row], -1) - want).abs().max()) < CLOSE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_adding_nothing_keeps_every_bit(dtype: torch.dtype) -> None:
    numbers = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 3.5, torch.inf, -torch.inf]).to(dtype)
    added = numbers + torch.tensor(NOTHING).to(dtype)
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert torch.equal(added.view(bits), numbers.view(bits))


def test_texts_of_different_lengths_share_a_pass_token_by_token() -> None:
    model, adapters = tiny()
    runner = start_runner(model, VOCAB, CONTEXT)
    assert isinstance(runner, CachedRunner)
    assert runner.lanes.packs
    asked = [span_of(i, text(4 + 3 * i, i), 2, adapter) for i, adapter in enumerate(adapters)]
    answers = ask(runner, asked)
    assert runner.passes.count == 1
    for one, answer in zip(asked, answers, strict=True):
        want = by_hooks(model, "model.layers", one.tokens, one.lane.adapter)[-2:]
        assert float((answer.logprobs - want).abs().max()) < CLOSE


@pytest.mark.parametrize("where", ["all", "answer"])
def test_the_plain_runner_takes_them_too(where: str) -> None:
    model, _ = tiny()
    runner: Any = PlainRunner(ModelPasses(model, VOCAB), CONTEXT)
    adapter = adapter_of(model, (vector(model, 1), 1.0), where=where)
    asked = span_of(0, text(6), 3, adapter, continuation=[4, 5, 6])
    [answer] = ask(runner, [asked])
    start = 5 if where == "answer" else 0
    want = by_hooks(model, "model.layers", asked.tokens, adapter, start)[-3:]
    assert float((answer.logprobs - want).abs().max()) < CLOSE


def test_a_lora_and_vectors_work_in_one_pass(tmp_path: Path) -> None:
    model = tiny_model()
    merged = adapt(model, adaptable(model), tmp_path / "lora")
    lora = read(str(tmp_path / "lora"), model)
    push = vector(model, 1)
    adapters = [
        adapter_of(model, (push, 1.0), lora=lora), lora, adapter_of(model, (push, 1.0)), None,
        adapter_of(model, (push, -0.5), lora=lora),
    ]  # fmt: skip
    ids = torch.tensor([text(7, seed) for seed in range(len(adapters))])
    adapted = Adapted(model)
    with torch.inference_mode():
        got = torch.log_softmax(adapted.forward(adapters, input_ids=ids).logits, -1)
    for row, adapter in enumerate(adapters):
        alone = model if adapter is None or adapter.lora is None else merged
        want = by_hooks(alone, "model.layers", ids[row].tolist(), adapter)
        assert float((got[row] - want).abs().max()) < CLOSE
    # Three adapters have the same LoRA, whose matrices are held once.
    assert adapted._rank == lora.rank
    with torch.inference_mode():
        steered_only = adapted.forward([adapters[2], None], input_ids=ids[:2]).logits
        assert torch.equal(steered_only[1], model(input_ids=ids[:2]).logits[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_strengths_make_no_new_tree(dtype: torch.dtype) -> None:
    """In bfloat16 the tables that are written and those that are added are two copies."""
    model = tiny_model().to(dtype)
    # One strength differs from the next by 0.08 or more.
    close = CLOSE if dtype == torch.float32 else 0.02
    adapted, push, ids = Adapted(model), vector(model, 1), torch.tensor([text(7)])
    first = adapter_of(model, (push, 1.0))
    with torch.inference_mode():
        adapted.forward([first], input_ids=ids)
        tree, kept = adapted.tree, [first]
        for i in range(2 * MOST):
            kept.append(adapter_of(model, (push, i / MOST - 1)))
            got = torch.log_softmax(
                adapted.forward([kept[-1]], input_ids=ids).logits[0].float(), -1
            )
            want = by_hooks(model, "model.layers", ids[0].tolist(), kept[-1])
            assert float((got - want).abs().max()) < close
        assert adapted.tree is tree
        assert all(len(table.rows) == 1 + MOST for table in adapted._shifts._tables.values())
        # The first one was dropped, and more than `MOST` in one pass are kept together.
        everyone = adapted.forward(kept, input_ids=ids.expand(len(kept), -1)).logits
        larger = adapted.tree
        for row, adapter in zip(everyone, kept, strict=True):
            want = by_hooks(model, "model.layers", ids[0].tolist(), adapter)
            assert float((torch.log_softmax(row.float(), -1) - want).abs().max()) < close
        adapted.forward([*kept[:-1], first], input_ids=ids.expand(len(kept), -1))
        assert adapted.tree is larger


def test_a_tree_that_could_not_be_built_is_built_by_the_next_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first pass has no memory for a tree with a new hook, or for one more matrix."""
    model = tiny_model()
    merged = adapt(model, adaptable(model), tmp_path / "lora")
    lora, push = read(str(tmp_path / "lora"), model), vector(model, 1, layers=[1])
    first = adapter_of(model, (push, 1.0))
    others = [
        *(adapter_of(model, (push, i / MOST - 1)) for i in range(MOST - 1)),
        # Its row is that of the first one, which was used least recently.
        adapter_of(model, (vector(model, 2, layers=[0]), 1.0)),
        lora,
        adapter_of(model, (vector(model, 3), 0.5), lora=lora),
    ]
    adapted, ids = Adapted(model), torch.tensor([text(7)])
    for adapter in (first, *others, first):
        alone = model if adapter.lora is None else merged
        want = by_hooks(alone, "model.layers", ids[0].tolist(), adapter)
        for copied in (_no_memory, shared_copy):
            monkeypatch.setattr(lora_passes, "shared_copy", copied)
            with torch.inference_mode(), suppress(torch.OutOfMemoryError):
                got = torch.log_softmax(adapted.forward([adapter], input_ids=ids).logits[0], -1)
        assert float((got - want).abs().max()) < CLOSE
    with torch.inference_mode():
        kept = adapted.forward([first], input_ids=ids).logits
        monkeypatch.setattr(lora_passes, "shared_copy", _no_memory)
        rows = [adapter_of(model, (push, i / MOST)) for i in range(1, MOST + 2)]
        with pytest.raises(torch.OutOfMemoryError):
            adapted.forward(rows, input_ids=ids.expand(len(rows), -1))
        monkeypatch.setattr(lora_passes, "shared_copy", shared_copy)
        assert torch.equal(adapted.forward([first], input_ids=ids).logits, kept)


def _no_memory(_model: Any) -> NoReturn:
    raise torch.OutOfMemoryError("out of memory")


def test_an_adapter_may_be_freed_while_its_row_is_given_away() -> None:
    model, _ = tiny()
    shifts, held = Shifts(1), [adapter_of(model, (vector(model, 1), 1.0))]

    class Freeing(WeakKeyDictionary[Adapter, int]):
        """A map whose adapters are freed by another thread after it was read."""

        def values(self) -> Any:
            found = [*super().values()]
            held.clear()
            return found

        def items(self) -> Any:
            found = [*super().items()]
            held.clear()
            return found

    shifts.meet(held)
    shifts._met = Freeing(shifts._met)
    other = adapter_of(model, (vector(model, 2), 1.0))
    shifts.meet([other])
    assert shifts.rows_of([other, None]) == [1, 0]


def test_the_model_itself_is_never_touched() -> None:
    model, adapters = tiny()
    ids = torch.tensor([text(7, seed) for seed in range(4)])
    with torch.inference_mode():
        bare = model(input_ids=ids).logits
        Adapted(model).forward(adapters, input_ids=ids)
        assert torch.equal(model(input_ids=ids).logits, bare)
    assert not any(module._forward_hooks for module in model.modules())


def test_vectors_take_the_type_of_the_model() -> None:
    model = tiny_model().bfloat16()
    adapter = adapter_of(model, (vector(model, 1), 1.0))
    ids = torch.tensor([text(7), text(7)])
    with torch.inference_mode():
        got = Adapted(model).forward([adapter, None], input_ids=ids).logits
        assert got.dtype == torch.bfloat16
        assert torch.equal(got[1], model(input_ids=ids).logits[1])
    want = by_hooks(model, "model.layers", ids[0].tolist(), adapter)
    assert float((torch.log_softmax(got[0].float(), -1) - want).abs().max()) < 0.02


def test_states_without_a_row_for_each_text_are_refused_and_not_mixed_up() -> None:
    model, adapters = tiny()
    adapted, ids = Adapted(model), torch.tensor([text(7), text(7)])
    adapted.forward([adapters[1], None], input_ids=ids)
    layer: Any = adapted.tree.model.layers[0]
    [hook] = layer._forward_hooks.values()
    for folded in (torch.zeros(14, 32), torch.zeros(1, 14, 32), None):
        with pytest.raises(
            ModelError, match=r"of layer 'model\.layers\.0' has no hidden state for"
        ):
            hook(layer, (), folded)


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma3_text"])
def test_an_early_exit_reads_the_shifted_states(name: str) -> None:
    model = build(name)
    runner = start_runner(model, model.config.get_text_config().vocab_size, CONTEXT)
    adapter = adapter_of(model, (vector(model, 1), 1.0))
    asked = span_of(0, text(9), 2, adapter, (2,))
    [answer] = ask(runner, [asked])
    layers, seen = model.get_submodule(LAYERS[name]), list[Tensor]()
    # The state after 2 layers leaves layer 1, counted from 0.
    with hooked(
        model, layers, {int(k.rpartition(".")[2]): v for k, v in adapter.shifts.items()}, 0
    ):
        handle = layers[1].register_forward_hook(
            lambda *call: seen.append(call[2][0] if isinstance(call[2], tuple) else call[2])
        )
        with torch.inference_mode():
            model(torch.tensor([asked.tokens]))
        handle.remove()
    base = model.base_model
    norm = getattr(base, "norm", None) or base.final_layer_norm
    with torch.inference_mode():
        want = torch.log_softmax(model.get_output_embeddings()(norm(seen[0][:, -2:])), -1)[0]
    got = torch.stack([logprobs[at] for logprobs, at in answer.exits[2]])
    assert float((got - want[:, : got.shape[-1]]).abs().max()) < CLOSE
