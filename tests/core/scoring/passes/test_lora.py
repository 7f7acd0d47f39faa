"""Rows with different adapters: each equals its merged model, whatever rows are beside it."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from support.runner_questions import CONTEXT, VOCAB, span_of
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.lora import MOST, Adapted
from marith.scoring.weights.layout.packing import Packed
from marith.scoring.weights.lora_files import Adapter, read
from marith.scoring.weights.shared_weights import shared_copy
from marith.testing import FAMILIES, tiny_model

# What peft, which makes and merges the adapters here, asks of a model that transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
ATTENTION = {"gpt2": ["c_attn"], "gpt_neox": ["query_key_value"]}


def made(model: Any, folder: Path, seed: int, **given: Any) -> tuple[Adapter, Any]:
    """A random adapter that peft saved, as we read it; and the model that peft merged with it."""
    options = {"r": 3, "lora_alpha": 6, "init_lora_weights": False, **given}
    fan = type(model).__name__.startswith("GPT2")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = get_peft_model(copy.deepcopy(model), LoraConfig(fan_in_fan_out=fan, **options))
    for name, parameter in adapted.named_parameters():
        if ".lora_" in name:
            parameter.data.mul_(1.5)  # peft's own are so small that a wrong one would hardly show
    adapted.save_pretrained(str(folder), save_embedding_layers=False)
    return read(str(folder), model), adapted.merge_and_unload().eval()


def logprobs(output: Any) -> Tensor:
    return torch.log_softmax(output.logits.float(), dim=-1)


@torch.inference_mode()
def distance(left: Any, right: Any) -> float:
    return float((logprobs(left) - logprobs(right)).abs().max())


IDS = torch.randint(2, 28, (5, 7), generator=torch.Generator().manual_seed(0))


@cache
def family() -> tuple[Any, list[Adapter | None], list[Any]]:
    """A model, adapters of different ranks over different layers, and what each merges to."""
    model, where = tiny_model(), Path(mkdtemp())
    shapes: list[dict[str, Any]] = [
        {"r": 1, "target_modules": ["q_proj", "v_proj"]},
        {"r": 5, "target_modules": "all-linear", "use_rslora": True},
        {"target_modules": ["down_proj", "lm_head"], "lora_alpha": 1},
        {"target_modules": r".*layers\.1\..*proj", "rank_pattern": {"up_proj": 2, "q.*": 4},
         "alpha_pattern": {"layers.1.mlp.up_proj": 9, "q_.*": 2, "[kv]_proj": 40}},
    ]  # fmt: skip
    pairs = [made(model, where / str(i), i, **shape) for i, shape in enumerate(shapes)]
    return model, [None, *(a for a, _ in pairs)], [model, *(m for _, m in pairs)]


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("layers", ["attention", "all-linear"])
def test_every_row_equals_the_model_with_its_adapter_merged(
    tmp_path: Path, kind: str, layers: str
) -> None:
    model = tiny_model(kind)
    target = ATTENTION.get(kind, ["q_proj", "v_proj"]) if layers == "attention" else layers
    a, merged_a = made(model, tmp_path / "a", 1, target_modules=target)
    b, merged_b = made(model, tmp_path / "b", 2, target_modules=target, r=2)
    with torch.inference_mode():
        mixed = Adapted(model).forward([a, None, b, a, b], input_ids=IDS).logits
        for i, alone in enumerate([merged_a, model, merged_b, merged_a, merged_b]):
            want = logprobs(alone(IDS[i : i + 1]))
            assert float((torch.log_softmax(mixed[i : i + 1], -1) - want).abs().max()) < 1e-4
        assert distance(merged_a(IDS), model(IDS)) > 0.1


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=4))
def test_other_rows_and_earlier_rows_do_not_change_a_row(passes: list[list[int]]) -> None:
    model, adapters, alone = family()
    adapted = Adapted(model)
    for rows in passes:
        ids = IDS[: len(rows)]
        with torch.inference_mode():
            got = logprobs(adapted.forward([adapters[i] for i in rows], input_ids=ids))
            for row, i in enumerate(rows):
                want = logprobs(alone[i](ids[row : row + 1]))[0]
                assert float((got[row] - want).abs().max()) < 1e-4


def test_the_model_itself_is_never_touched() -> None:
    model, adapters, _ = family()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modules = [type(module) for module in model.modules()]
    with torch.inference_mode():
        bare = model(IDS).logits
        adapted = Adapted(model)
        adapted.forward(adapters, input_ids=IDS)
        assert torch.equal(adapted.forward([None] * 5, input_ids=IDS).logits, bare)
        assert torch.equal(model(IDS).logits, bare)
    assert modules == [type(module) for module in model.modules()]
    after = model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert list(after) == list(before)


def test_adapters_share_the_weights_of_the_model() -> None:
    model, adapters, _ = family()
    adapted = Adapted(model)
    adapted.forward(adapters, input_ids=IDS)
    own = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in adapted.tree.parameters()} == own


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 7)), min_size=2, max_size=6))
def test_texts_of_different_lengths_share_a_pass(texts: list[tuple[int, int]]) -> None:
    model, adapters, alone = family()
    runner = start_runner(model, VOCAB, CONTEXT)
    assert isinstance(runner, CachedRunner)
    rows = [(i, IDS[i % 5, :length]) for i, (_, length) in enumerate(texts)]
    asked = [
        span_of(i, ids.tolist(), min(len(ids), 2), adapters[which])
        for (which, _), (i, ids) in zip(texts, rows, strict=True)
    ]
    answers = runner.ask(asked)
    assert runner.passes.count == 1
    for (which, _), one, answer in zip(texts, asked, answers, strict=True):
        assert answer is not None
        with torch.inference_mode():
            want = logprobs(alone[which](torch.tensor([one.tokens])))[0, -one.count :]
        torch.testing.assert_close(answer.logprobs, want, atol=1e-4, rtol=0)


def test_adapters_that_were_dropped_are_loaded_again(tmp_path: Path) -> None:
    model = tiny_model()
    pairs = [
        made(model, tmp_path / str(i), i, r=1, target_modules=["q_proj"]) for i in range(MOST + 2)
    ]
    adapted = Adapted(model)
    with torch.inference_mode():
        for i in [*range(MOST + 2), 0, MOST]:
            adapter, merged = pairs[i]
            assert distance(adapted.forward([adapter] * 5, input_ids=IDS), merged(IDS)) < 1e-4
            assert len(adapted._met) <= MOST
        everyone = [adapter for adapter, _ in pairs]
        got = logprobs(adapted.forward(everyone, input_ids=IDS[:1].expand(MOST + 2, -1)))
        for row, (_, merged) in zip(got, pairs, strict=True):
            assert float((row - logprobs(merged(IDS[:1]))[0]).abs().max()) < 1e-4


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_packed_weights_take_adapters_too(tmp_path: Path, kind: str) -> None:
    model = tiny_model(kind)
    adapter, merged = made(model, tmp_path, 3, target_modules="all-linear")
    packed = shared_copy(model)
    for layer in adapter.updates:
        try:
            packed.set_submodule(layer, Packed(packed.get_submodule(layer)))
        except (AttributeError, RuntimeError):
            pytest.skip("this machine lacks the operator")
    again = read(adapter.name, packed)
    assert again == adapter
    with torch.inference_mode():
        got = logprobs(Adapted(packed).forward([again, None, again], input_ids=IDS[:3]))
        for row, alone in enumerate((merged, model, merged)):
            want = logprobs(alone(IDS[row : row + 1]))[0]
            assert float((got[row] - want).abs().max()) < 1e-4


def test_an_adapter_takes_the_type_of_the_model(tmp_path: Path) -> None:
    model = tiny_model().bfloat16()
    adapter, merged = made(model, tmp_path, 4, target_modules=["q_proj"])
    with torch.inference_mode():
        got = Adapted(model).forward([adapter, None], input_ids=IDS[:2])
        assert got.logits.dtype == torch.bfloat16
        assert float((got.logits[0] - merged(IDS[:2]).logits[0]).abs().max()) < 0.5


def test_an_overflow_in_one_row_does_not_change_other_rows() -> None:
    model, adapters, _ = family()
    first = adapters[1]
    assert first is not None
    huge = {layer: type(u)(u.down * 3e38, u.up) for layer, u in first.updates.items()}
    wild = Adapter("wild", "", {}, huge)
    with torch.inference_mode():
        got = Adapted(model).forward([wild, None], input_ids=IDS[:2]).logits
        assert not bool(got[0].isfinite().all())
        assert float((got[1] - model(IDS[1:2]).logits[0]).abs().max()) < 1e-4


def test_equal_files_under_one_name_are_one_adapter(tmp_path: Path) -> None:
    model = tiny_model()
    first, _ = made(model, tmp_path, 1, target_modules=["q_proj"])
    assert read(first.name, model) == first
    assert hash(read(first.name, model)) == hash(first)
    trained_again, _ = made(model, tmp_path, 2, target_modules=["q_proj"])
    assert trained_again != first


def test_rows_that_are_folded_together_are_refused_and_not_mixed_up(tmp_path: Path) -> None:
    model, adapters, _ = family()
    adapted = Adapted(model)
    adapted.forward([adapters[1], None], input_ids=IDS[:2])
    layer: Any = adapted.tree.model.layers[0].self_attn.q_proj
    for folded in (torch.zeros(14, 32), torch.zeros(1, 14, 32)):
        says = r"the input \[.*14, 32\] of layer .*q_proj' has no row for each text; merge each"
        with pytest.raises(ModelError, match=says):
            layer(folded)
