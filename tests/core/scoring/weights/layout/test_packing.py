"""Packed weights: the same numbers, no second copy, and nothing touched that is not a linear."""

from __future__ import annotations

import time
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.pytorch_utils import Conv1D

from marith.scoring.weights import loader
from marith.scoring.weights.layout import packing
from marith.scoring.weights.layout.lean_modules import LinearPart
from marith.scoring.weights.layout.packing import Packed, set_fewest_rows
from marith.scoring.weights.shared_weights import shared_copy
from marith.testing import FAMILIES, tiny_model, tiny_tokenizer

needs_operator = pytest.mark.skipif(
    not packing._takes(torch.float32), reason="this build of torch cannot pack"
)
pytestmark = needs_operator
IDS = torch.randint(0, 28, (3, 7), generator=torch.Generator().manual_seed(1))


def wide_model() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = LlamaConfig(
            vocab_size=1024,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=2,
            num_attention_heads=4,
            tie_word_embeddings=True,
        )
        model = LlamaForCausalLM(config).eval()
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data.normal_(std=0.05)  # much more, and float32 itself is 1e-5 off
    return model


@torch.inference_mode()
def logprobs(model: Any, ids: Tensor = IDS, **given: Any) -> Tensor:
    return torch.log_softmax(model(ids, **given).logits.float(), dim=-1)


def require(dtype: torch.dtype) -> None:
    """Skip a test where the processor's oneDNN multiplies no such numbers."""
    if not packing._takes(dtype):
        pytest.skip(f"oneDNN has no {dtype} here")


WIDE = (768, 2304), (2048, 768), (768, 4096), (2048, 2048)
NARROW = (704, 256), (1024, 256), (1536, 576)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("sizes", "rows"), [(WIDE, (256, 1, 4, 16, 64)), (NARROW, (64, 1, 2, 3, 17, 32, 33, 48, 63))]
)
@torch.inference_mode()
def test_a_row_has_the_same_bits_alone_and_among_others(
    dtype: torch.dtype, sizes: tuple[tuple[int, int], ...], rows: tuple[int, ...]
) -> None:
    require(dtype)
    torch.manual_seed(2)
    for inputs, outputs in sizes:
        packed = Packed(nn.Linear(inputs, outputs).to(dtype))
        set_fewest_rows([packed])
        x = torch.randn(512, inputs, dtype=dtype)
        whole, *others = (torch.cat([packed(part) for part in x.split(count)]) for count in rows)
        assert all(torch.equal(other, whole) for other in others)


@torch.inference_mode()
def test_a_model_of_zeros_does_not_decide_the_layout_of_the_next() -> None:
    require(torch.bfloat16)
    torch.manual_seed(4)
    random, zeros = (nn.Linear(512, 512, bias=False).to(torch.bfloat16) for _ in range(2))
    zeros.weight.zero_()
    alone, after = Packed(random), Packed(random)
    for layer in (alone, Packed(zeros), after):
        set_fewest_rows([layer])
    assert after.fewest_rows == alone.fewest_rows


def linears(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if isinstance(m, nn.Linear | Conv1D)]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=0, atol=tolerance))


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=2),
    ins=st.integers(1, 70),
    outs=st.integers(1, 70),
    bias=st.booleans(),
    kind=st.sampled_from([nn.Linear, Conv1D]),
    view=st.sampled_from(["contiguous", "transposed", "strided", "expanded"]),
    seed=st.integers(0, 99),
)
def test_a_packed_layer_computes_what_the_layer_did(
    sizes: list[int], ins: int, outs: int, bias: bool, kind: Any, view: str, seed: int
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = nn.Linear(ins, outs, bias=bias) if kind is nn.Linear else Conv1D(outs, ins)
        x = {
            "contiguous": lambda: torch.randn(*sizes, ins),
            "transposed": lambda: torch.randn(ins, *sizes).movedim(0, -1),
            "strided": lambda: torch.randn(*sizes, 2 * ins)[..., ::2],
            "expanded": lambda: torch.randn(ins).expand(*sizes, ins),
        }[view]()
    packed = Packed(layer)
    assert (packed.in_features, packed.out_features) == (ins, outs)
    assert (packed.weight.device, packed.weight.dtype) == (layer.weight.device, torch.float32)
    assert packed.bias is layer.bias
    with torch.inference_mode():
        assert close(packed(x), layer(x))


@pytest.mark.parametrize("family", FAMILIES)
def test_packing_changes_the_results_of_no_family(family: str) -> None:
    model = tiny_model(family)
    want = logprobs(model)
    before = len(linears(model))
    packing.pack(model, smallest=1)
    assert [type(m) for m in linears(model)] == [Packed] * before
    assert close(logprobs(model), want)
    assert close(logprobs(model, IDS[:1]), want[:1])


def test_packing_does_not_change_a_wide_model_or_its_embedding() -> None:
    model = wide_model()
    ids = torch.randint(0, 1024, (4, 30), generator=torch.Generator().manual_seed(2))
    want = logprobs(model, ids)
    table = model.get_input_embeddings().weight
    packing.pack(model)
    assert type(model.lm_head) is Packed
    assert model.get_input_embeddings().weight is table
    assert close(logprobs(model, ids), want)
    assert close(logprobs(model, ids[:1]), want[:1])


def test_bfloat16_is_packed_where_the_processor_takes_it() -> None:
    require(torch.bfloat16)
    model = wide_model().bfloat16()
    want = logprobs(model)
    packing.pack(model)
    assert type(model.lm_head) is Packed
    assert close(logprobs(model), want, tolerance=0.1)


class Alive(TorchDispatchMode):
    """How many of the original weights live whenever the next is laid out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.weights = [weakref.ref(m.weight) for m in linears(model)]
        self.counts: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.mkldnn._reorder_linear_weight.default and args[0].numel() > 1:
            self.counts.append(sum(ref() is not None for ref in self.weights))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_each_weight_is_freed_before_the_next_is_packed(family: str) -> None:
    model = tiny_model(family)
    with Alive(model) as alive:
        packing.pack(model, smallest=1)
    count = len(alive.weights)
    assert alive.counts == list(range(count, 0, -1))


class Quantised(nn.Linear):
    """What another library makes of a linear."""


def hooked(*args: Any) -> None:
    """What another library does before a linear runs."""


def test_other_layers_than_plain_linear_ones_are_not_packed() -> None:
    watched, moved = nn.Linear(8, 8), nn.Linear(8, 8)
    watched.register_forward_pre_hook(hooked)
    moved.forward = lambda x: x  # type: ignore[assignment, method-assign]  # as other libraries do
    double, far = nn.Linear(8, 8).double(), nn.Linear(8, 8, device="meta")
    kept = [Quantised(8, 8), watched, moved, double, far, nn.Linear(8, 7), nn.Embedding(8, 8)]
    model = nn.ModuleList([*kept, nn.Linear(8, 8)])
    packing.pack(model, smallest=64)
    assert all(a is b for a, b in zip(model, kept, strict=False))
    assert type(model[-1]) is Packed


@pytest.mark.parametrize("lack", ["operators", "oneDNN"])
def test_without_the_operator_a_model_stays_as_it_is(
    lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wide_model()
    if lack == "operators":
        monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    else:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    packing.pack(model)
    assert not any(isinstance(m, Packed) for m in model.modules())


def test_a_user_s_model_is_packed_in_a_twin_of_it() -> None:
    model = tiny_model()
    copy = shared_copy(model)
    packing.pack(copy, smallest=1)
    assert not any(isinstance(m, Packed) for m in model.modules())
    assert close(logprobs(copy), logprobs(model))


def test_a_packed_model_has_twins_over_the_same_weights() -> None:
    model = tiny_model("gpt2")
    packing.pack(model, smallest=1)
    copy = shared_copy(model)
    pairs = list(zip(linears(model), linears(copy), strict=True))
    assert all(a is not b and a.weight is b.weight for a, b in pairs)
    assert torch.equal(logprobs(copy), logprobs(model))


@pytest.mark.parametrize("pace", [1.5, 0.5])
def test_the_layout_does_not_depend_on_a_clock(
    pace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one clock, whatever comes second seems slow; by the other, fast."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(time, "perf_counter", lambda: pace ** next(ticks))
    model = loader.from_loaded(wide_model(), tiny_tokenizer(), loader.Placement()).model
    assert {type(m) for m in linears(model)} == {Packed, LinearPart}
