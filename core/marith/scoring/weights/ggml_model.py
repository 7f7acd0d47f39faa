"""A GGUF file in memory, loaded by llama.cpp: its weights, which many contexts read.

Imports no torch, so that a process that tries a file out starts fast.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from marith.errors import ModelError
from marith.scoring.weights.ggml_library import last_error, library

FEWEST = 256  # places of a context
_EVERY_LAYER = 999


class GGMLModel:
    """The weights of a file.

    With `repacked` they are laid out for the processor's own products (`use_extra_bufts`). With
    `accelerated` all layers are on the GPU that the library was built for. `threads` are how many
    compute, `cells` the fewest places of a context. Raises ModelError for what llama.cpp does not
    load.
    """

    def __init__(
        self, path: str, *, threads: int, repacked: bool, accelerated: bool, cells: int = FEWEST
    ) -> None:
        lib = self.lib = library()
        options = lib.llama_model_default_params()
        options.use_extra_bufts = repacked
        options.n_gpu_layers = _EVERY_LAYER if accelerated else 0
        # Repacked weights are a copy: a mapped file would stay in memory beside it.
        options.load_mode = lib.LLAMA_LOAD_MODE_NONE if repacked else lib.LLAMA_LOAD_MODE_MMAP
        last_error()
        self.handle = lib.llama_model_load_from_file(os.fsencode(path), options)
        if not self.handle:
            raise ModelError(f"llama.cpp does not load {path!r}: {last_error()}")
        weakref.finalize(self, lib.llama_model_free, self.handle)
        self.path, self.threads, self.accelerated = path, threads, accelerated
        self.cells = cells
        self.words = lib.llama_model_get_vocab(self.handle)
        self.vocab = int(lib.llama_vocab_n_tokens(self.words))
        self.nbytes = int(lib.llama_model_size(self.handle))
        self.positions = int(lib.llama_model_n_ctx_train(self.handle))
        self.window = int(lib.llama_model_n_swa(self.handle))  # 0: every layer sees all
        # Of these a state is kept for each text, which cannot be cut back.
        self.recurrent = bool(
            lib.llama_model_is_recurrent(self.handle) or lib.llama_model_is_hybrid(self.handle)
        )

    def tokens(self, text: str) -> list[int]:
        """Return a text as llama.cpp's tokenizer reads it; names of special tokens are letters."""
        raw = text.encode()
        room = len(raw) + 8
        found = (self.lib.llama_token * room)()
        count = self.lib.llama_tokenize(self.words, raw, len(raw), found, room, False, False)
        return list(found[: max(0, count)])

    def ends(self) -> list[int]:
        """The tokens that end a text, as llama.cpp finds them."""
        return [i for i in range(self.vocab) if self.lib.llama_vocab_is_eog(self.words, i)]

    @property
    def has_tokenizer(self) -> bool:
        """Whether the file has one that llama.cpp runs: asked of another it ends the process."""
        return int(self.lib.llama_vocab_type(self.words)) != int(self.lib.LLAMA_VOCAB_TYPE_NONE)

    @property
    def is_causal(self) -> bool:
        """Whether it is a decoder alone, which gives the next token."""
        decodes = self.lib.llama_model_has_decoder(self.handle)
        return bool(decodes) and not self.lib.llama_model_has_encoder(self.handle)


class GGMLAdapter:
    """A LoRA over the weights of a model, from a GGUF file; it is freed with its last user.

    Raises ModelError where it does not fit.
    """

    def __init__(self, model: GGMLModel, path: str) -> None:
        last_error()
        self._handle = model.lib.llama_adapter_lora_init(model.handle, os.fsencode(path))
        if not self._handle:
            raise ModelError(f"llama.cpp does not load the adapter {path!r}: {last_error()}")
        self._lib = model.lib
        weakref.finalize(self, _free_adapter, model, self._handle)

    def set_on(self, context: Any) -> None:
        """Let a context read with it, at full strength."""
        one = (self._lib.llama_adapter_lora_p_ctypes * 1)(self._handle)
        self._lib.llama_set_adapters_lora(context, one, 1, (ctypes.c_float * 1)(1.0))


def _free_adapter(model: GGMLModel, handle: Any) -> None:
    """Before the model, which would free it too."""
    model.lib.llama_adapter_lora_free(handle)
