"""Names of devices and types: torch's pass, and others are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from marith import Engine, ModelError, Options, RequestError
from marith.request.placement_names import DEVICES, device_name, dtype_name


@pytest.mark.parametrize("name", [None, *DEVICES, "cuda:1", "cpu:0"])
def test_a_device_of_torch_is_accepted(name: str | None) -> None:
    assert device_name("device", name) == name


@pytest.mark.parametrize("name", ["gpu", "GPU", "cdua", "cuda:x", "meta", 0])
def test_another_device_is_refused(name: Any) -> None:
    with pytest.raises(RequestError) as caught:
        device_name("device", name)
    kinds = "a device of torch, such as 'cpu', 'cuda' or 'cuda:1'"
    assert str(caught.value) == f"device must be {kinds}, not {name!r}"


@pytest.mark.parametrize("name", ["fp16", "bf16", "auto", "int8", torch.int8, 16])
def test_another_type_is_refused(name: Any) -> None:
    with pytest.raises(RequestError) as caught:
        dtype_name("dtype", name)
    kinds = "a floating-point type of torch, such as 'float32', 'bfloat16' or 'float16'"
    quoted = repr(str(name)) if name is torch.int8 else repr(name)
    assert str(caught.value) == f"dtype must be {kinds}, not {quoted}"


def test_objects_of_torch_are_their_names() -> None:
    options = Options(device=torch.device("cpu"), dtype=torch.float16)  # type: ignore[arg-type]
    assert (options.device, options.dtype) == ("cpu", "torch.float16")


def test_a_device_of_a_backend_that_is_not_installed_is_named() -> None:
    with pytest.raises(ModelError, match=r"^this torch has no device 'npu'$"):
        Engine.load("pocket", device="npu")
