"""Passes whose rotary frequencies are those of a length that is given, and no token need have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_KINDS = ("longrope", "dynamic")


class ForcedLength:
    """Tells the rotary modules of a model how long the texts of a pass are.

    They take the length from the last of all positions. So they are given one position more, the
    last of a text of that length, and what they compute for it is dropped. Outside of `at` they are
    as they were. Keeps state, for one thread; it applies to copies of the model too.
    """

    def __init__(self, model: nn.Module) -> None:
        self._length: int | None = None
        for module in model.modules():
            if kinds := _kinds(module):
                self._attach(module, "dynamic" in kinds)

    @contextmanager
    def at(self, length: int) -> Iterator[None]:
        """Passes within have the frequencies of this length, or of their last position for 0."""
        before, self._length = self._length, length
        try:
            yield
        finally:
            self._length = before

    def _attach(self, module: nn.Module, remembers: bool) -> None:
        """No bound methods: a copy of the module would copy what they are bound to."""

        def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
            if self._length is None:
                return None
            given = dict(zip(("x", "position_ids", "layer_type"), args, strict=False)) | kwargs
            positions = given.pop("position_ids")
            if remembers:  # the longest length that it has met, until it meets a short one
                module.forward(position_ids=torch.zeros_like(positions[..., :1]), **given)
            if self._length:
                last = torch.full_like(positions[..., :1], self._length - 1)
                positions = torch.cat([positions, last], dim=-1)
            return (), {**given, "position_ids": positions}

        def after(_module: nn.Module, _args: Any, out: Any) -> Any:
            if not self._length:
                return None
            whole = isinstance(out, Tensor)
            return _without_last(out) if whole else tuple(_without_last(part) for part in out)

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after)


def _kinds(module: nn.Module) -> set[str]:
    """By which rules the frequencies of a rotary module depend on the length; none for others."""
    rope_type = getattr(module, "rope_type", None)
    return {*_KINDS} & {*(rope_type.values() if isinstance(rope_type, dict) else [rope_type])}


def _without_last(rotations: Tensor) -> Tensor:
    """[…, positions + 1, dim] → […, positions, dim]."""
    return rotations[..., :-1, :]
