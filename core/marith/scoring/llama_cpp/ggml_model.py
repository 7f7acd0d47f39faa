"""A GGUF file in memory, loaded by llama.cpp: its weights, which many contexts read.

Imports no torch, so that a process that tries a file out starts fast.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from marith.errors import ModelError
from marith.scoring.llama_cpp.ggml_library import last_error, library

_EVERY_LAYER = 999


class GGMLModel:
    """The weights of a file.

    With `repacked` they are laid out for the processor's own products (`use_extra_bufts`). With
    `accelerated` all layers are on the GPU that the library was built for. `threads` are how many
    compute. Raises ModelError for what llama.cpp does not load.
    """

    def __init__(self, path: str, *, threads: int, repacked: bool, accelerated: bool) -> None:
        lib = self.lib = library()
        options = lib.llama_model_default_params()
        options.use_extra_bufts = repacked
        options.n_gpu_layers = _EVERY_LAYER if accelerated else 0
        # Repacked weights are a copy: a mapped file would stay in memory beside it.
        options.load_mode = lib.LLAMA_LOAD_MODE_NONE if repacked else lib.LLAMA_LOAD_MODE_MMAP
        last_error()
        self.handle = lib.llama_model_load_from_file(path.encode(), options)
        if not self.handle:
            raise ModelError(f"llama.cpp does not load {path!r}: {last_error()}")
        weakref.finalize(self, lib.llama_model_free, self.handle)
        self.path, self.threads, self.accelerated = path, threads, accelerated
        self.words = lib.llama_model_get_vocab(self.handle)
        self.vocab = int(lib.llama_vocab_n_tokens(self.words))
        self.nbytes = int(lib.llama_model_size(self.handle))
        self.positions = int(lib.llama_model_n_ctx_train(self.handle))
        # Of these a state is kept for each text, which cannot be cut back.
        self.recurrent = bool(
            lib.llama_model_is_recurrent(self.handle) or lib.llama_model_is_hybrid(self.handle)
        )

    def tokens(self, text: str, start: bool = False) -> list[int]:
        """A text as llama.cpp's own tokenizer reads it; names of special tokens are letters.

        `start` adds what stands before a text of its own.
        """
        raw = text.encode()
        room = len(raw) + 8
        found = (self.lib.llama_token * room)()
        count = self.lib.llama_tokenize(self.words, raw, len(raw), found, room, start, False)
        return list(found[: max(0, count)])

    def ends(self) -> list[int]:
        """The tokens that end a text, as llama.cpp finds them."""
        return [i for i in range(self.vocab) if self.lib.llama_vocab_is_eog(self.words, i)]

    def adapter(self, path: str) -> Any:
        """A LoRA over these weights, from a GGUF file. Raises ModelError where it does not fit."""
        last_error()
        handle = self.lib.llama_adapter_lora_init(self.handle, path.encode())
        if not handle:
            raise ModelError(f"llama.cpp does not load the adapter {path!r}: {last_error()}")
        return handle


def pointer_to(lib: Any, handle: Any) -> Any:
    """An array of one adapter."""
    return (lib.llama_adapter_lora_p_ctypes * 1)(handle)


def scale_of_one() -> Any:
    """An array of one scale: 1."""
    return (ctypes.c_float * 1)(1.0)
