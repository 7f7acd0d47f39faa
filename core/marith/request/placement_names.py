"""Check names of devices, number types and backends, and memory limits, without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from marith.errors import MarithError, RequestError, shown

# With this device name, the library accelerate spreads the model over several devices.
SPREAD = "auto"
# The first backend is the default.
BACKENDS = "transformers", "llama.cpp"
# What the tokens of an engine are: those of its base model, or bytes.
Over: TypeAlias = Literal["tokens", "bytes"]
DEVICES = (
    "cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "mlu", "musa", "xla", "privateuseone",
)  # fmt: skip
_DEVICE = re.compile(rf"({'|'.join(DEVICES)})(:\d+)?")
_DTYPE = re.compile(
    r"(torch\.)?(float32|float|float64|double|float16|half|bfloat16|float8_\w+|float4_\w+)"
)


def device_name(name: str, value: Any, error: type[MarithError] = RequestError) -> Any:
    """Return the name of one of torch's devices, or None. Raises `error` for any other value."""
    device = _name_of(value)
    if device in (None, SPREAD) or (isinstance(device, str) and _DEVICE.fullmatch(device)):
        return device
    kinds = "a device of torch, such as 'cpu', 'cuda' or 'cuda:1'"
    raise error(f"{name} must be {kinds}, not {shown(device)}")


def dtype_name(name: str, value: Any, error: type[MarithError] = RequestError) -> Any:
    """Return the name of a floating-point type of torch, or None. Raises `error` for others."""
    dtype = _name_of(value)
    if dtype is None or (isinstance(dtype, str) and _DTYPE.fullmatch(dtype)):
        return dtype
    kinds = "a floating-point type of torch, such as 'float32', 'bfloat16' or 'float16'"
    raise error(f"{name} must be {kinds}, not {shown(dtype)}")


def memory_limits(name: str, value: Any, error: type[MarithError] = RequestError) -> Any:
    """Return the memory that each device may use, or None.

    The amounts, such as '20GB', are not checked here: the library accelerate reads them later.
    Raises `error` for a value that is not a table of devices and amounts.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        form = "a table of devices and amounts, such as {'cuda:0': '20GB', 'cpu': '60GB'}"
        raise error(f"{name} must be {form}, not {shown(value)}")
    # A GPU may be named by its number, as for the library accelerate: 0 becomes 'cuda:0'.
    return {f"cuda:{key}" if type(key) is int else str(key): each for key, each in value.items()}


def backend_name(name: str, value: Any, error: type[MarithError] = RequestError) -> Any:
    """Return the backend that computes a model, or None for transformers.

    Raises `error` for an unknown name.
    """
    if value is None or (isinstance(value, str) and value in BACKENDS):
        return None if value == BACKENDS[0] else value
    known = " or ".join(map(repr, BACKENDS))
    raise error(f"{name} must be {known}, not {shown(value)}")


def over_name(name: str, value: Any, error: type[MarithError] = RequestError) -> Any:
    """Return what the tokens of an engine are. Raises `error` for an unknown name."""
    if isinstance(value, str) and value in get_args(Over):
        return value
    known = " or ".join(map(repr, get_args(Over)))
    raise error(f"{name} must be {known}, not {shown(value)}")


def _name_of(value: Any) -> Any:
    """Return the name of a device or type of torch. Return any other value unchanged."""
    # This room does not import torch, so torch's objects are recognised by their module.
    return str(value) if type(value).__module__ == "torch" else value
