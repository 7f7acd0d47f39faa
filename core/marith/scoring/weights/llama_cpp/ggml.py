"""llama.cpp through llama-cpp-python: the library, a loaded GGUF file, and a context.

A context must be used in one thread.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marith.errors import ModelError

PACKAGE = "llama_cpp"
_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=4)
# A context has at least this number of cells.
FEWEST = 256
# No model has more layers.
_EVERY_LAYER = 999
Logits: TypeAlias = "NDArray[np.float32]"
# At first, a context of a recurrent model has room for this number of texts.
FEW_STATES = 16
# One call of llama_decode gets at most this number of tokens.
_BATCH = 2048
# llama.cpp reads this number of tokens in one product, and allocates memory for their logits. On a
# CPU more tokens save no time.
_PIECE, _PIECE_OF_GPU = 128, 512
# llama_decode returns this number if there are not enough cells.
_NO_ROOM = 1


@cache
def library() -> Any:
    """Return the module of bindings. Raises ModelError if it is not installed."""
    if find_spec(PACKAGE) is None:
        raise ModelError(
            "backend='llama.cpp' needs llama-cpp-python, which 'marith[all]' does not have: leave "
            "out backend, and transformers runs the file; or pip install 'marith[llamacpp]', which "
            "builds it in some minutes (for prebuilt wheels see docs/how-to/gguf.md)"
        )
    module = import_module(PACKAGE)
    module.llama_log_set(_log(), ctypes.c_void_p())
    module.llama_backend_init()
    return module


def last_error() -> str:
    """Return the library's last error messages, and forget them."""
    said = " ".join(" ".join(_errors).split())
    _errors.clear()
    return said or "it gives no reason"


@cache
def _log() -> Any:
    """Return the callback that receives the library's log.

    It stays as long as the process, because models write log lines when they are freed.
    """

    def receive(level: int, text: bytes | None, _: Any) -> None:
        if level == _ERROR and text:
            _errors.append(text.decode("utf-8", errors="replace"))

    return import_module(PACKAGE).llama_log_callback(receive)


class GGMLModel:
    """The weights of a GGUF file in llama.cpp's memory.

    If `accelerated` is True, all layers are on the GPU that the library was built for. Otherwise
    the weights are `repacked` into a layout for llama.cpp's fast matrix products on this processor,
    except on processors with AMX: there, llama.cpp crashes with this layout as soon as several rows
    are read. `threads` is the number of threads that compute. `cells` is the smallest number of
    cells of a context. Raises ModelError for a file that llama.cpp cannot load.
    """

    def __init__(self, path: str, *, threads: int, accelerated: bool, cells: int = FEWEST) -> None:
        lib = self.lib = library()
        options = lib.llama_model_default_params()
        repacked = not accelerated and not torch.cpu.get_capabilities().get("amx_int8")
        options.use_extra_bufts = self.repacked = repacked
        options.n_gpu_layers = _EVERY_LAYER if accelerated else 0
        # Repacked weights are a copy, and a mapped file would stay in memory next to the copy.
        options.load_mode = lib.LLAMA_LOAD_MODE_NONE if repacked else lib.LLAMA_LOAD_MODE_MMAP
        # Older messages are forgotten, so that an error quotes only messages about this file.
        last_error()
        self.handle = lib.llama_model_load_from_file(os.fsencode(path), options)
        if not self.handle:
            raise ModelError(f"llama.cpp cannot load {path!r}: {last_error()}")
        weakref.finalize(self, lib.llama_model_free, self.handle)
        self.path, self.threads, self.accelerated = path, threads, accelerated
        self.cells = cells
        self.words = lib.llama_model_get_vocab(self.handle)
        self.vocab = int(lib.llama_vocab_n_tokens(self.words))
        self.nbytes = int(lib.llama_model_size(self.handle))
        self.layers = int(lib.llama_model_n_layer(self.handle))
        self.width = int(lib.llama_model_n_embd(self.handle))
        self.positions = int(lib.llama_model_n_ctx_train(self.handle))
        # The window is 0 if every layer sees the whole text.
        self.window = int(lib.llama_model_n_swa(self.handle))
        # These models keep a state for each text, which cannot be truncated.
        self.recurrent = bool(
            lib.llama_model_is_recurrent(self.handle) or lib.llama_model_is_hybrid(self.handle)
        )

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text by llama.cpp's tokenizer.

        Names of special tokens are plain characters.
        """
        raw = text.encode()
        room = len(raw) + 8
        found = (self.lib.llama_token * room)()
        count = self.lib.llama_tokenize(self.words, raw, len(raw), found, room, False, False)
        return list(found[: max(0, count)])

    def ends(self) -> list[int]:
        """Return the tokens that end a text, as llama.cpp finds them."""
        return [i for i in range(self.vocab) if self.lib.llama_vocab_is_eog(self.words, i)]

    @property
    def has_tokenizer(self) -> bool:
        """True if the file has a tokenizer that llama.cpp runs.

        Without such a tokenizer, `tokens` would end the process.
        """
        return int(self.lib.llama_vocab_type(self.words)) != int(self.lib.LLAMA_VOCAB_TYPE_NONE)

    @property
    def is_causal(self) -> bool:
        """True if the model is a decoder without an encoder, which predicts the next token."""
        decodes = self.lib.llama_model_has_decoder(self.handle)
        return bool(decodes) and not self.lib.llama_model_has_encoder(self.handle)


class GGMLAdapter:
    """A LoRA over the weights of a model, from a GGUF file. Its last user frees it.

    Raises ModelError if the adapter does not fit.
    """

    def __init__(self, model: GGMLModel, path: str) -> None:
        last_error()
        self._handle = model.lib.llama_adapter_lora_init(model.handle, os.fsencode(path))
        if not self._handle:
            raise ModelError(f"llama.cpp cannot load the adapter {path!r}: {last_error()}")
        self._lib = model.lib
        weakref.finalize(self, _free_adapter, model, self._handle)

    def set_on(self, context: Any) -> None:
        """Apply the adapter to all passes of a context, at full strength."""
        one = (self._lib.llama_adapter_lora_p_ctypes * 1)(self._handle)
        self._lib.llama_set_adapters_lora(context, one, 1, (ctypes.c_float * 1)(1.0))


class GGMLVectors:
    """Directions that are added to the hidden states after decoder layers, by number of layer.

    llama.cpp has no place for a direction of layer 0.
    """

    def __init__(self, model: GGMLModel, directions: Mapping[int, Tensor]) -> None:
        self._lib = model.lib
        self._last, self._width = model.layers - 1, model.width
        rows = np.zeros((max(0, self._last), model.width), np.float32)
        for layer, direction in directions.items():
            rows[layer - 1] = direction.numpy()
        self._rows = rows

    def set_on(self, context: Any) -> None:
        """Add the directions in all passes of a context. Raises ModelError if llama.cpp cannot."""
        last_error()
        data = self._rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        call = self._lib.llama_set_adapter_cvec
        if call(context, data, self._rows.size, self._width, 1, self._last):
            raise ModelError(f"llama.cpp cannot add a control vector: {last_error()}")


def _free_adapter(model: GGMLModel, handle: Any) -> None:
    """Free an adapter before its model, because the model would free it too."""
    model.lib.llama_adapter_lora_free(handle)


Changes: TypeAlias = "tuple[GGMLAdapter | GGMLVectors, ...]"


@dataclass(frozen=True, slots=True)
class Item:
    """A token, its position, its sequence, and True in `asked` if its logits are wanted."""

    token: int
    place: int
    sequence: int
    asked: bool


class GGMLContext:
    """The KV cache of at most `sequences` texts in `cells` cells, in float16.

    Texts share the cells of a common prefix. A recurrent model keeps a state for each text instead.
    At first there are few states; `more_sequences` adds more. `changes` are a LoRA that is added to
    the weights, and vectors that are added to the hidden states. Keeps state: the tokens that were
    read.
    """

    def __init__(self, model: GGMLModel, changes: Changes = ()) -> None:
        self._model, self._changes, self._lib = model, changes, model.lib
        self.recurrent = model.recurrent
        self.sequences = FEW_STATES if self.recurrent else self.most_sequences
        self._open(model.cells)

    @property
    def most_sequences(self) -> int:
        """The number of texts that the library can read at once."""
        return int(self._lib.llama_max_parallel_sequences())

    def decode(self, items: Sequence[Item]) -> Logits | None:
        """Return the logits of the items that ask for them, [asked, vocab], in order.

        Return None if there are not enough cells. The tokens that were read until then stay in the
        cache, so the caller must truncate these texts before reading them again. Raises ModelError
        if llama.cpp fails.
        """
        rows = []
        for start in range(0, len(items), self._batch):
            part = items[start : start + self._batch]
            if (read := self._decode(part)) is None:
                return None
            rows.append(read)
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def cut(self, sequence: int, length: int) -> bool:
        """Truncate a text to its first `length` tokens.

        If the text cannot be truncated, drop all its tokens and return False.
        """
        cut = self._lib.llama_memory_seq_rm(self._memory, sequence, length, -1)
        if cut and self.holds(sequence, length):
            return True
        self.drop(sequence)
        return False

    def holds(self, sequence: int, length: int) -> bool:
        """Return True if a text can continue after the first `length` of its cached tokens.

        If layers see a window, llama.cpp gives the cells behind the window to other texts.
        """
        if not self._model.window or not length:
            return True
        first = int(self._lib.llama_memory_seq_pos_min(self._memory, sequence))
        return 0 <= first <= max(0, length - self._model.window)

    def drop(self, sequence: int) -> None:
        """Drop all cached tokens of a text."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def share(self, source: int, target: int, length: int) -> None:
        """Replace the tokens of `target` with the first `length` tokens of `source`."""
        self.drop(target)
        self._lib.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def resize(self, cells: int) -> bool:
        """Change the number of cells. Return False if the cached tokens could not be moved."""
        lib, old = self._lib, self._closing
        size = lib.llama_state_get_size(self._handle)
        # llama.cpp cannot resize a context, so its state moves to a new one.
        state = (ctypes.c_uint8 * size)()
        written = lib.llama_state_get_data(self._handle, state, size)
        self._open(cells)
        old()
        return bool(written) and lib.llama_state_set_data(self._handle, state, written) == written

    def more_sequences(self) -> bool:
        """Double the number of texts, and forget all texts.

        Return False if the number is the library's maximum already.
        """
        if self.sequences == self.most_sequences:
            return False
        before, old = self.sequences, self._closing
        self.sequences = min(2 * before, self.most_sequences)
        try:
            self._open(self.cells)
        except ModelError:
            self.sequences = before
            raise
        old()
        return True

    @property
    def working_bytes(self) -> int:
        """The bytes that the context takes beside its cache, mostly for the logits of a product."""
        piece = _PIECE_OF_GPU if self._model.accelerated else _PIECE
        return 4 * piece * self._model.vocab

    def state_bytes(self, sequence: int) -> int:
        """Return the bytes of a text's cached tokens or state."""
        return int(self._lib.llama_state_seq_get_size(self._handle, sequence))

    def _open(self, cells: int) -> None:
        lib, options = self._lib, self._lib.llama_context_default_params()
        options.n_ctx, options.n_seq_max = max(self._model.cells, cells), self.sequences
        options.n_batch = _BATCH
        options.n_ubatch = _PIECE_OF_GPU if self._model.accelerated else _PIECE
        options.n_threads = options.n_threads_batch = self._model.threads
        options.kv_unified = options.swa_full = options.no_perf = True
        last_error()
        handle = lib.llama_init_from_model(self._model.handle, options)
        if not handle:
            raise ModelError(f"llama.cpp cannot make a context of {cells} tokens: {last_error()}")
        for change in self._changes:
            change.set_on(handle)
        self.cells = int(lib.llama_n_ctx(handle))
        # A larger batch would end the process.
        self._batch = min(_BATCH, int(lib.llama_n_batch(handle)))
        self._handle, self._memory = handle, lib.llama_get_memory(handle)
        self._tokens = lib.llama_batch_init(self._batch, 0, 1)
        # The model and the adapter are freed last, because finalisers may read them.
        used = self._model, self._changes
        self._closing = weakref.finalize(self, _close, used, self._tokens, handle)

    def _decode(self, items: Sequence[Item]) -> Logits | None:
        batch, lib = self._tokens, self._lib
        for i, item in enumerate(items):
            batch.token[i], batch.pos[i], batch.logits[i] = item.token, item.place, item.asked
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, item.sequence
        batch.n_tokens = len(items)
        if error := lib.llama_decode(self._handle, batch):
            if error == _NO_ROOM:
                return None
            raise ModelError(f"llama.cpp's llama_decode failed with error {error}: {last_error()}")
        shape = sum(item.asked for item in items), self._model.vocab
        if not shape[0]:
            return np.empty(shape, np.float32)
        return np.ctypeslib.as_array(lib.llama_get_logits(self._handle), shape).copy()


def _close(used: tuple[GGMLModel, Changes], tokens: Any, handle: Any) -> None:
    model, _ = used
    model.lib.llama_batch_free(tokens)
    model.lib.llama_free(handle)
