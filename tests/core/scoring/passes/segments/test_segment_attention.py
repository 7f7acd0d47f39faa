"""Attention of bfloat16 for few queries: in float32, part by part, and rounded once."""

from __future__ import annotations

import pytest
import torch

from marith.scoring.passes.segments import segment_attention
from marith.scoring.passes.segments.segment_attention import Read, _Attention

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
def test_attention_equals_float64_rounded_once(
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


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_text_has_the_same_bits_alone_and_among_others(shared: bool, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(64, HEADS, 1, DIM, generator=draw).to(dtype)
    keys, values = (torch.randn(64, HEADS, 700, DIM, generator=draw).to(dtype) for _ in range(2))
    attention = _Attention(keys, values, 1, SCALE, None, None)

    def read(first: int, count: int) -> torch.Tensor:
        texts, rows = slice(0, count), slice(first, first + (1 if shared else count))
        reads = [Read(texts, rows, 0, 700, shared=shared)]
        return attention.part(reads, query[first : first + count])

    for count in (3, 4, 64):
        among = read(0, count)
        assert torch.equal(among[:1], read(0, 1))
        assert among.dtype == dtype


def test_attention_in_float64_keeps_its_precision() -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(2, HEADS, 1, DIM, generator=draw).double()
    keys, values = (torch.randn(2, HEADS, 30, DIM, generator=draw).double() for _ in range(2))
    out = _Attention(keys, values, 1, SCALE, None, None).part(
        [Read(slice(0, 2), slice(0, 2), 0, 30)], query
    )
    expected = torch.softmax(query @ keys.mT * SCALE, -1) @ values
    torch.testing.assert_close(out.transpose(1, 2), expected, atol=1e-12, rtol=0)
