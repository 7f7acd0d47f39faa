"""The library llama.cpp, as llama-cpp-python has it: imported once, and silent.

Imports no torch, so that a process that tries a file out starts fast.
"""

from __future__ import annotations

import ctypes
from collections import deque
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from marith.errors import ModelError

PACKAGE = "llama_cpp"
_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=4)


@cache
def library() -> Any:
    """The module of bindings. Raises ModelError where it is absent."""
    if find_spec(PACKAGE) is None:
        raise ModelError(
            "backend='llama.cpp' needs llama-cpp-python: `pip install marith[llamacpp]` builds it "
            "in some minutes; docs/how-to/gguf.md says where built ones are"
        )
    module = import_module(PACKAGE)
    module.llama_log_set(_log(), ctypes.c_void_p())
    module.llama_backend_init()
    return module


def last_error() -> str:
    """What the library said last about what failed; it is forgotten then."""
    said = " ".join(" ".join(_errors).split())
    _errors.clear()
    return said or "it does not say why"


@cache
def _log() -> Any:
    """What receives its log. It stays as long as the process: models log when they are freed."""

    def receive(level: int, text: bytes | None, _: Any) -> None:
        if level == _ERROR and text:
            _errors.append(text.decode("utf-8", errors="replace"))

    return import_module(PACKAGE).llama_log_callback(receive)
