"""Linear layers whose weights are whole numbers of 8 or 4 bits, and a scale for each row or group.

int8: a weight is its level times its row's scale (Dettmers et al., 2022, section 2.1). Each row of
the input has a scale of its own, so that no row depends on its neighbours, and is a level of 8 bits
and 8 bits of what that leaves: two rows of one product of whole numbers. With 8 bits alone, one
digit of difference in the last place of the input moves a level, and layers later a log-probability
by a hundredth of a nat.
int4: a weight is its level times its group's scale, and its group's zero added; the input is in
bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from marith.errors import ModelError

GROUP = 32  # weights of a row that share a scale in int4
_HIGHEST = 127  # of the levels in int8, and the lowest is its negative
_AT_ONCE = 2**20  # weights that are brought into few bits at a time
_TINY = 1e-30  # the least scale: a row of zeros has one too


class QuantisedLinear(nn.Linear):
    """A linear layer in few bits: for inference. To others it is the `nn.Linear` it replaces.

    Its weights are levels and scales until `lay_out`, and from then on what only one operator
    can read. `forward` computes the same with both, but for rounding.
    """

    rounds_as: ClassVar[torch.dtype]  # the type whose digits are nearest to those of its input
    weight: nn.Parameter  # the levels; under this name others look for a type and a device
    scales: nn.Parameter  # the first axis is that of the outputs, in both

    def __init__(self, like: nn.Linear, levels: Tensor, scales: Tensor, bias: Any) -> None:
        """Of as many inputs as `like` has."""
        nn.Module.__init__(self)  # nn.Linear's own would draw weights at random
        self.in_features, self.out_features = like.in_features, len(levels)
        self.weight, self.scales, self.bias = _kept(levels), _kept(scales), bias
        self.is_laid_out = False
        self.train(like.training)

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        """A plain layer in few bits; of one on the meta device, its shape."""
        return cls(linear, *cls.quantised(linear.weight.detach()), linear.bias)

    @classmethod
    def stacked(cls, layers: Sequence[Any]) -> Self:
        """The outputs of several layers, one after another."""
        return cls(
            layers[0],
            all_rows([one.weight for one in layers]),
            all_rows([one.scales for one in layers]),
            None if layers[0].bias is None else all_rows([one.bias for one in layers]),
        )

    @classmethod
    def takes(cls, inputs: int, outputs: int) -> bool:
        """Whether the operator can multiply by weights of this shape."""
        return inputs > 0 and outputs > 0

    @classmethod
    def quantised(cls, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Levels and scales of weights [out, in], by so many rows that floats of them are few."""
        rows = max(1, _AT_ONCE // weight.shape[1])
        parts = [cls._of_rows(some.float()) for some in weight.split(rows)]
        levels, scales = zip(*parts, strict=True)
        return torch.cat(levels), torch.cat(scales)

    @classmethod
    def _of_rows(cls, weight: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def plain(self) -> nn.Linear:
        """A layer in float32 with the weights that the levels stand for."""
        return self.narrow(slice(None), self.in_features)

    def narrow(self, rows: Any, columns: int) -> nn.Linear:
        """The same of some outputs, and of so many first inputs: whole groups of them."""
        levels, scales = self._cut(self.weight.detach()[rows], self.scales.detach()[rows], columns)
        bias = None if self.bias is None else _kept(self.bias.detach()[rows].float())
        return plain_linear(_kept(self._floats(levels, scales)), bias).train(self.training)

    def lay_out(self) -> None:
        """Put the weights in the operator's own order, in place; twice is as once."""
        if not self.is_laid_out:
            levels, scales = self._laid_out()
            self.weight, self.scales = _kept(levels), _kept(scales)
            self.is_laid_out = True

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """[..., in_features] → [..., out_features]."""
        rows = input.reshape(-1, self.in_features)
        out = self._product(rows).to(input.dtype)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*input.shape[:-1], self.out_features)

    def _floats_product(self, rows: Tensor) -> Tensor:
        """[rows, in] → [rows, out] before the weights are laid out, a part of them at a time."""
        size = max(1, _AT_ONCE // self.in_features)
        parts = zip(self.weight.split(size), self.scales.split(size), strict=True)
        return torch.cat([functional.linear(rows, self._floats(*one)) for one in parts], dim=-1)

    def _cut(self, levels: Tensor, scales: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _floats(self, levels: Tensor, scales: Tensor) -> Tensor:
        raise NotImplementedError

    def _laid_out(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def _product(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class _Halves:
    """Numbers of an input row as two whole numbers of so many bits: level = 2^bits · high + low.

    Both halves are from 0 to 2^bits − 1 and stand for 2^(bits − 1) less, which is `zero`. With 8
    bits the largest number of a row has the level 127 · 256 = 32,512; its halves are 255 and 128.
    """

    def __init__(self, bits: int) -> None:
        self.zero, self.step = 2 ** (bits - 1), 2**bits
        self.levels = (self.zero - 1) * self.step
        # Makes both halves positive, and is half a level more: what is cut then is rounded.
        self._above = torch.tensor(self.zero * (self.step + 1) + 0.5)
        self._shifts = torch.tensor([bits, 0], dtype=torch.int32)[:, None, None]

    def of(self, rows: Tensor, largest: Tensor) -> Tensor:
        """[rows, in] → [2, rows, in] in uint8; `largest` is of each row, [rows, 1].

        Of a row of zeros they are any numbers.
        """
        levels = torch.add(self._above, rows / largest, alpha=self.levels).to(torch.int32)
        halves = levels >> self._shifts
        if self.step < 256:  # of 256 the conversion keeps the last eight bits
            halves = halves & (self.step - 1)
        return halves.to(torch.uint8)


class Int8Linear(QuantisedLinear):
    """Levels [out, in] of 8 bits and scales [out]; the input has 16 bits, row by row.

    14 bits on a processor that adds up products of 8 bits in 16: see `input_bits`.
    """

    rounds_as = torch.float16

    @classmethod
    def _of_rows(cls, weight: Tensor) -> tuple[Tensor, Tensor]:
        """By the largest weight of each row."""
        scales = (weight.abs().amax(1) / _HIGHEST).clamp_min(_TINY)
        return (weight / scales[:, None]).round_().to(torch.int8), scales

    def _cut(self, levels: Tensor, scales: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        return levels[:, :columns], scales

    def _floats(self, levels: Tensor, scales: Tensor) -> Tensor:
        return levels.float() * scales[:, None]

    def _laid_out(self) -> tuple[Tensor, Tensor]:
        packed = torch.ops.onednn.qlinear_prepack(self.weight.detach(), None)
        self._zeros = torch.zeros(1, dtype=torch.int32)
        return packed, self.scales.detach()

    def _product(self, rows: Tensor) -> Tensor:
        rows, halves = rows.float(), _halves()
        largest = rows.abs().amax(-1, True)
        high, low = self._of_levels(halves.of(rows, largest).flatten(0, 1), halves.zero).chunk(2)
        return torch.add(low, high, alpha=halves.step).mul_(largest.div_(halves.levels))

    def _of_levels(self, levels: Tensor, zero: int) -> Tensor:
        """[rows, in], each `zero` more than it stands for → [rows, out]."""
        if not self.is_laid_out:
            return self._floats_product(levels.float() - zero)
        return _whole_product(levels, zero, self.weight, self.scales, self._zeros)


class Int4Linear(QuantisedLinear):
    """Levels [out, in / 2], two in a byte; scales and middles of groups [out, in / GROUP, 2]."""

    rounds_as = torch.bfloat16

    @classmethod
    def takes(cls, inputs: int, outputs: int) -> bool:
        """The operator takes whole groups, and outputs by sixteen."""
        return inputs % GROUP == 0 and outputs % 16 == 0

    @classmethod
    def _of_rows(cls, weight: Tensor) -> tuple[Tensor, Tensor]:
        """By the least and the largest weight of each group."""
        groups = weight.unflatten(1, (-1, GROUP))
        least, largest = groups.amin(-1), groups.amax(-1)
        scales = ((largest - least) / 15).clamp_min(_TINY).bfloat16()
        middles = (least + 8 * scales.float()).bfloat16()
        distance = (groups - middles.float()[..., None]) / scales.float()[..., None]
        levels = (distance + 8).round_().clamp_(0, 15).to(torch.uint8).flatten(1)
        return levels[:, ::2] * 16 + levels[:, 1::2], torch.stack((scales, middles), dim=-1)

    def _cut(self, levels: Tensor, scales: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        return levels[:, : columns // 2], scales[:, : columns // GROUP]

    def _floats(self, levels: Tensor, scales: Tensor) -> Tensor:
        sizes, middles = scales.float().unbind(-1)
        groups = _from_0_to_15(levels).float().unflatten(1, (-1, GROUP)) - 8
        weight: Tensor = (groups * sizes[..., None] + middles[..., None]).flatten(1)
        return weight

    def _laid_out(self) -> tuple[Tensor, Tensor]:
        whole = _from_0_to_15(self.weight).int()
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole, 1)
        return packed, self.scales.detach().transpose(0, 1).contiguous()

    def _product(self, rows: Tensor) -> Tensor:
        rows = rows.bfloat16()
        if not self.is_laid_out:
            return self._floats_product(rows.float()).bfloat16()
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            rows, self.weight, GROUP, self.scales
        )
        return out


def _from_0_to_15(pairs: Tensor) -> Tensor:
    """Levels [out, in] of bytes [out, in / 2]."""
    return torch.stack((pairs >> 4, pairs & 15), dim=-1).flatten(1)


FORMATS: dict[str, type[QuantisedLinear]] = {"int8": Int8Linear, "int4": Int4Linear}


def _whole_product(
    levels: Tensor, zero: int, packed: Tensor, scales: Tensor, zeros: Tensor
) -> Tensor:
    out: Tensor = torch.ops.onednn.qlinear_pointwise.default(
        levels, 1.0, zero, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return out


@cache
def _halves() -> _Halves:
    return _Halves(input_bits() // 2)


@cache
def input_bits() -> int:
    """How many bits an input of int8 has: 16, or 14 where a product of 8 bits by 8 overflows.

    A processor without VNNI (or AMX) adds up two products in 16 bits: 2 · 255 · 127 is too much
    for them, 2 · 127 · 127 is not. Raises ModelError where torch has no such product at all.
    """
    weight = torch.full((16, 64), _HIGHEST, dtype=torch.int8)
    scales, zeros = torch.ones(16), torch.zeros(1, dtype=torch.int32)
    try:
        packed = torch.ops.onednn.qlinear_prepack(weight, None)
        for bits in (16, 14):
            halves = _Halves(bits // 2)
            most = torch.full((2, 64), halves.step - 1, dtype=torch.uint8)
            out = _whole_product(most, halves.zero, packed, scales, zeros)
            if bool((out == 64 * _HIGHEST * (halves.zero - 1)).all()):
                return bits
    except (AttributeError, RuntimeError):
        pass
    raise ModelError(
        "quantize needs products of whole numbers, which this torch does not have on this "
        "processor; leave it out"
    )


def plain_linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    """A plain layer with this weight [out, in], for which no numbers are drawn."""
    made = nn.Linear(1, 1, bias=False, device="meta")
    made.out_features, made.in_features = weight.shape
    made.weight = weight
    if bias is not None:
        made.bias = bias
    return made


def all_rows(parameters: Sequence[Tensor]) -> nn.Parameter:
    """The rows of all, one after another."""
    return _kept(torch.cat([one.detach() for one in parameters]))


def _kept(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)
