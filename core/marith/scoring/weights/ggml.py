"""llama.cpp, as llama-cpp-python has it: the library, a GGUF file in memory, and a context.

Whoever uses a context uses it in one thread.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from marith.errors import ModelError

PACKAGE = "llama_cpp"
_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_errors: deque[str] = deque(maxlen=4)
FEWEST = 256  # places of a context
_EVERY_LAYER = 999
Logits: TypeAlias = "NDArray[np.float32]"
FEW_STATES = 16  # texts of a recurrent model for which there is memory at first
_BATCH = 2048  # tokens of one call
# Of one product. There is memory for the logits of all: on a CPU more tokens gain no time by it.
_PIECE, _PIECE_OF_GPU = 128, 512
_NO_ROOM = 1


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


class GGMLModel:
    """The weights of a file.

    With `accelerated` all layers are on the GPU that the library was built for; else weights are
    `repacked` for the processor's own products, but with AMX: llama.cpp's layout for it crashes as
    soon as several rows are read. `threads` are how many compute, `cells` the fewest places of a
    context. Raises ModelError for what llama.cpp does not load.
    """

    def __init__(self, path: str, *, threads: int, accelerated: bool, cells: int = FEWEST) -> None:
        lib = self.lib = library()
        options = lib.llama_model_default_params()
        repacked = not accelerated and not torch.cpu.get_capabilities().get("amx_int8")
        options.use_extra_bufts = self.repacked = repacked
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


@dataclass(frozen=True, slots=True)
class Item:
    """A token, its place, the sequence that it is of, and whether its logits are asked."""

    token: int
    place: int
    sequence: int
    asked: bool


class GGMLContext:
    """Keys and values of at most `sequences` texts in `cells` places, in float16.

    Texts share the places of a common prefix. A recurrent model keeps a state for each text
    instead, and there are few of these until there are `more_sequences`. Keeps state: what was
    read. `adapter` changes the weights that it reads with.
    """

    def __init__(self, model: GGMLModel, adapter: GGMLAdapter | None = None) -> None:
        self._model, self._adapter, self._lib = model, adapter, model.lib
        self.recurrent = model.recurrent
        self.sequences = FEW_STATES if self.recurrent else self.most_sequences
        self._open(model.cells)

    @property
    def most_sequences(self) -> int:
        """How many texts the library reads at once."""
        return int(self._lib.llama_max_parallel_sequences())

    def decode(self, items: Sequence[Item]) -> Logits | None:
        """[asked, vocab] in the order of the tokens; None where there is no place for them all.

        What was read of them stays then: cut those texts back before they are read again. Raises
        ModelError where llama.cpp fails.
        """
        rows = []
        for start in range(0, len(items), self._batch):
            part = items[start : start + self._batch]
            if (read := self._decode(part)) is None:
                return None
            rows.append(read)
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def cut(self, sequence: int, length: int) -> bool:
        """Keep the first tokens of a text. False where it cannot be cut back: it is empty then."""
        cut = self._lib.llama_memory_seq_rm(self._memory, sequence, length, -1)
        if cut and self.holds(sequence, length):
            return True
        self.drop(sequence)
        return False

    def holds(self, sequence: int, length: int) -> bool:
        """Whether a text can go on after so many tokens, of those that were read of it.

        Where layers see a window, llama.cpp gives their places behind it to others.
        """
        if not self._model.window or not length:
            return True
        first = int(self._lib.llama_memory_seq_pos_min(self._memory, sequence))
        return 0 <= first <= max(0, length - self._model.window)

    def drop(self, sequence: int) -> None:
        """Forget a text."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def share(self, source: int, target: int, length: int) -> None:
        """Let a text hold the first tokens of another, and no others."""
        self.drop(target)
        self._lib.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def resize(self, cells: int) -> bool:
        """Another number of places. False where what was read could not be taken along."""
        lib, old = self._lib, self._closing
        size = lib.llama_state_get_size(self._handle)
        state = (ctypes.c_uint8 * size)()
        written = lib.llama_state_get_data(self._handle, state, size)
        self._open(cells)
        old()
        return bool(written) and lib.llama_state_set_data(self._handle, state, written) == written

    def more_sequences(self) -> bool:
        """Twice as many texts, all of which are forgotten; False where there are no more."""
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
        """What it takes beside keys, values and states: logits of a product, above all."""
        piece = _PIECE_OF_GPU if self._model.accelerated else _PIECE
        return 4 * piece * self._model.vocab

    def state_bytes(self, sequence: int) -> int:
        """How many bytes what was read of a text weighs."""
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
            raise ModelError(f"llama.cpp makes no context of {cells} tokens: {last_error()}")
        if self._adapter is not None:
            self._adapter.set_on(handle)
        self.cells = int(lib.llama_n_ctx(handle))
        self._batch = min(_BATCH, int(lib.llama_n_batch(handle)))  # a larger one ends the process
        self._handle, self._memory = handle, lib.llama_get_memory(handle)
        self._tokens = lib.llama_batch_init(self._batch, 0, 1)
        # The model and the adapter go last: what is finalised may read them.
        used = self._model, self._adapter
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
            raise ModelError(f"llama.cpp cannot read on ({error}): {last_error()}")
        shape = sum(item.asked for item in items), self._model.vocab
        if not shape[0]:
            return np.empty(shape, np.float32)
        return np.ctypeslib.as_array(lib.llama_get_logits(self._handle), shape).copy()


def _close(used: tuple[GGMLModel, GGMLAdapter | None], tokens: Any, handle: Any) -> None:
    model, _ = used
    model.lib.llama_batch_free(tokens)
    model.lib.llama_free(handle)
