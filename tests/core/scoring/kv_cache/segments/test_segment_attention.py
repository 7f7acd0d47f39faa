"""Attention of bfloat16 for few queries: in float32, part by part, and rounded once."""

from __future__ import annotations

import pytest
import torch

from marith.scoring.kv_cache.segments import segment_attention
from marith.scoring.kv_cache.segments.reads import Read
from marith.scoring.kv_cache.segments.segment_attention import _Attention

TEXTS, HEADS, SLOTS, DIM = 5, 6, 40, 16
SCALE = DIM**-0.5


def masks(count: int) -> torch.Tensor:
    """What texts of different lengths see."""
    ends = torch.arange(SLOTS - count, SLOTS)[:, None, None, None]
    seen = (torch.arange(SLOTS) <= ends).expand(count, 1, 1, SLOTS)
    return torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill(~seen, -torch.inf)


@pytest.mark.parametrize("at_once", [1, 2**15, 2**17, 2**30])
@pytest.mark.parametrize("masked", [0, 1, TEXTS])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_it_is_that_of_float64_but_for_one_rounding(
    monkeypatch: pytest.MonkeyPatch, at_once: int, masked: int, groups: int
) -> None:
    monkeypatch.setattr(segment_attention, "_AT_ONCE", at_once)
    draw = torch.Generator().manual_seed(groups)
    shape = TEXTS, HEADS, SLOTS, DIM
    query = torch.randn(TEXTS, HEADS, groups, DIM, generator=draw).bfloat16()
    keys, values = (torch.randn(*shape, generator=draw).bfloat16() for _ in range(2))
    mask = masks(masked) if masked else None
    read = Read(slice(0, TEXTS), slice(0, TEXTS), 0, SLOTS, mask=mask)
    attention = _Attention(keys, values, groups, SCALE, None, None)
    out, total = attention.read(read, query)

    scores = query.double() @ keys.double().mT * SCALE
    if mask is not None:
        scores = scores + mask.double()
    expected = torch.softmax(scores, -1) @ values.double()
    assert out.dtype == torch.bfloat16
    assert torch.allclose(total.double(), torch.logsumexp(scores, -1), atol=2e-6)
    if groups < segment_attention._FEW:
        assert bool(((out.double() - expected).abs() <= 2**-8 * expected.abs() + 1e-6).all())
    else:  # torch's own kernel rounds the shares too
        assert torch.allclose(out.double(), expected, atol=0.02)


def test_a_text_has_the_same_bits_alone_and_among_others() -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(64, HEADS, 1, DIM, generator=draw).bfloat16()
    keys, values = (torch.randn(64, HEADS, 700, DIM, generator=draw).bfloat16() for _ in range(2))
    attention = _Attention(keys, values, 1, SCALE, None, None)
    among, _ = attention.read(Read(slice(0, 64), slice(0, 64), 0, 700), query)
    for i in (0, 17, 63):
        alone, _ = attention.read(Read(slice(0, 1), slice(i, i + 1), 0, 700), query[i : i + 1])
        assert torch.equal(among[i : i + 1], alone)
