"""Which lengths share their rotary frequencies is read from the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from support.architectures import build
from transformers import LlamaConfig

from marith.scoring.rotary.rotary_scaling import RotaryScaling, lower_limits, rotary_scaling


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen2 rope yarn", "llama rope llama3"])
def test_other_models_have_one_range(name: str) -> None:
    scaling = rotary_scaling(build(name).config)
    assert scaling == RotaryScaling()
    assert not scaling.reached(10**6)
    assert [*scaling.parts(90, 40)] == [(90, 40)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("phi3 longrope", RotaryScaling((64,))),
        ("phi3 longrope, long", RotaryScaling((4096,))),
        ("llama rope dynamic", RotaryScaling((), 512)),
    ],
)
def test_those_with_two_ranges_or_more_name_their_limit(name: str, expected: RotaryScaling) -> None:
    config = build(name).config
    scaling = rotary_scaling(config)
    assert scaling == expected
    limit = scaling.first or 0
    assert scaling.reached(limit + 1)
    assert not scaling.reached(limit)
    lower_limits(config, 8)
    assert rotary_scaling(config).first == 8


def test_prefixes_are_parted_where_their_frequencies_change() -> None:
    assert [*RotaryScaling((64,)).parts(66, 5)] == [(64, 3), (66, 2)]
    assert [*RotaryScaling((64,)).parts(66, 2)] == [(66, 2)]
    assert [*RotaryScaling((), 64).parts(66, 4)] == [(64, 2), (65, 1), (66, 1)]
    assert [*RotaryScaling((8, 64), 70).parts(72, 66)] == [
        (8, 2), (64, 56), (70, 6), (71, 1), (72, 1),
    ]  # fmt: skip


def test_each_kind_of_layer_may_have_its_own() -> None:
    ropes: dict[str, Any] = {
        "full_attention": {"rope_type": "longrope", "original_max_position_embeddings": 32},
        "sliding_attention": {"rope_type": "default"},
    }
    config = LlamaConfig()
    config.rope_parameters = ropes
    assert rotary_scaling(config) == RotaryScaling((32,))
