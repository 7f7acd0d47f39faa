"""Load a GGUF file as a checkpoint that llama.cpp computes, and adapters over it."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.request.placement_names import device_name
from marith.scoring.cpu_threads import SMALL
from marith.scoring.free_memory import bytes_text, free_memory
from marith.scoring.notices import warn
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights import control_vectors
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.control_vectors import ControlVector, VectorShape
from marith.scoring.weights.gguf.gguf_config import LONG
from marith.scoring.weights.gguf.gguf_header import GGUFHeader, read_header
from marith.scoring.weights.gguf.gguf_tokenizer import gguf_end_tokens
from marith.scoring.weights.llama_cpp.ggml import (
    FEWEST,
    Changes,
    GGMLAdapter,
    GGMLModel,
    GGMLVectors,
    library,
)
from marith.scoring.weights.locate import GGUF, local_file, locate
from marith.scoring.weights.lora_files import Adapter
from marith.scoring.weights.placing import Placement
from marith.scoring.weights.reading import Suits, header_of, tokenizer_of, vocabulary_of
from marith.scoring.weights.shared_weights import nbytes

LLAMA_CPP = "llama.cpp"
# Tokenizers often split these texts differently: spaces, digits, signs and other scripts.
_TEXTS = (
    "Hello, world! It's 12345.67 o'clock  now.\n\n\tx = [i**2 for i in range(10)]",
    "Ça coûte 3 €; ¿qué? Привет, мир! 你好，世界。 مرحبا 🙂🏽 \u200d ﬁ",
    " leading and trailing   ",
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class LlamaCppAdapter(Adapter):
    """An adapter in llama.cpp's memory, which is freed when nobody uses it."""

    held: Changes = field(default=(), compare=False, repr=False)
    size: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the adapter's file and of its vectors."""
        return self.size


def read_adapter(name: str, model: GGMLModel) -> LlamaCppAdapter:
    """Return the adapter of a GGUF file, checked by llama.cpp. Raises ModelError."""
    if not isinstance(name, str) or not name.lower().endswith(GGUF):
        raise ModelError(
            f"with backend={LLAMA_CPP!r} an adapter is a GGUF file, not {name!r}; llama.cpp's "
            "convert_lora_to_gguf.py converts a directory of peft"
        )
    path = local_file(name, locate(name))
    digest, held = hashlib.sha256(path.read_bytes()).hexdigest(), (GGMLAdapter(model, str(path)),)
    size = path.stat().st_size
    return LlamaCppAdapter(name, digest, MappingProxyType({}), {}, held=held, size=size)


def read_vector(name: str, model: GGMLModel) -> ControlVector:
    """Return the control vector of a GGUF file. Raises ModelError if it does not fit the model."""
    kind = read_header(model.path).architecture
    return control_vectors.read_for(name, VectorShape(model.layers, model.width, (kind,)))


def steered_adapter(
    model: GGMLModel,
    lora: Adapter | None,
    vectors: Sequence[tuple[ControlVector, float]],
    positions: Literal["all", "answer"],
) -> LlamaCppAdapter:
    """Return the adapter of a term with a LoRA, or None, and vectors with their strengths.

    Raises ModelError for what llama.cpp cannot add: a direction of layer 0, or vectors that begin
    at the answer.
    """
    instead = "backend=None reads the file with transformers, which can"
    if positions != "all":
        raise ModelError(
            f"backend={LLAMA_CPP!r} cannot add vectors with positions={positions!r}; {instead}"
        )
    first = next((vector for vector, _ in vectors if 0 in vector.directions), None)
    if first is not None:
        raise ModelError(
            f"backend={LLAMA_CPP!r} cannot add the direction of layer 0 in {first.name!r}; "
            f"{instead}"
        )
    made = control_vectors.steered(lora, vectors, positions, [str(i) for i in range(model.layers)])
    rows = {int(layer): shift for layer, shift in made.shifts.items()}
    held: Changes = (GGMLVectors(model, rows),)
    size = nbytes(rows.values())
    if isinstance(lora, LlamaCppAdapter):
        held, size = (*lora.held, *held), size + lora.size
    return LlamaCppAdapter(
        made.name, made.digest, made.config, {}, made.shifts, lora, held=held, size=size
    )


@dataclass(frozen=True, slots=True)
class LlamaCppCheckpoint(Checkpoint):
    """A GGUF file that llama.cpp computes, in the number types of the file.

    `kept` is the number of bytes of a token's keys and values, in float16.
    """

    format: str = ""
    kept: int | None = None

    @property
    def most_lanes(self) -> int | None:
        """The number of texts that the library was built for."""
        return int(self.model.lib.llama_max_parallel_sequences())

    @property
    def backend_device(self) -> str | None:
        """The CPU, or None for the GPU that the library was built for."""
        return None if self.model.accelerated else "cpu"

    @property
    def token_bytes(self) -> int | None:
        """The bytes of a token's keys and values, in float16."""
        return self.kept

    @property
    def summary(self) -> str:
        """The file's size in memory, number type, and the processor that computes it, in words."""
        where = "a GPU" if self.model.accelerated else f"{self.model.threads} threads"
        return f"{bytes_text(self.nbytes)}, {self.format} by llama.cpp on {where}"

    @property
    def device(self) -> torch.device:
        """The CPU, because log-probabilities are composed there."""
        return torch.device("cpu")

    @property
    def dtype(self) -> str:
        """float32, in which the engine loads its checkpoints of transformers, on the CPU."""
        return str(torch.float32)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """An empty tuple, because llama.cpp owns the weights."""
        return ()

    @property
    def nbytes(self) -> int:
        """The number of bytes of the weights."""
        return int(self.model.nbytes)

    @property
    def threads(self) -> int | None:
        """One, because more of torch's threads would wait while llama.cpp's threads compute."""
        return 1

    @property
    def rounds_coarsely(self) -> tuple[str, str] | None:
        """Two texts: the rounding of the file's type, and an exact alternative.

        llama.cpp keeps keys and values in float16, and rounds the inputs of its products.
        """
        return (
            f"llama.cpp rounds coarsely in {self.format}",
            "backend=None with dtype='float32' computes what the file holds exactly",
        )


def llama_cpp_checkpoint(
    name: str,
    where: str,
    placement: Placement,
    tokenizer: Any = None,
    suits: Suits | None = None,
) -> Checkpoint:
    """Load a GGUF file with llama.cpp. Raises ModelError if it cannot be loaded.

    `tokenizer` is for a file whose own tokenizer cannot be built. If the header lists the
    vocabulary, `suits` is called with it before any weights are read. `suits` raises an error if
    the caller cannot use the vocabulary.
    """
    started = time.monotonic()
    _require_file(name, where, placement)
    lib, header = library(), header_of(name, where, placement.revision)
    accelerated = _accelerated(placement, lib)
    _require_memory(name, header, accelerated)
    # The tokenizer is made first: if that fails, no time is lost on large weights.
    words = tokenizer_of(name, header, tokenizer)
    listed = header.metadata.get("tokenizer.ggml.tokens")
    if suits is not None and isinstance(listed, int):
        suits(vocabulary_of(name, words, listed))
    model = _loaded(name, header, accelerated)
    vocabulary = Vocabulary(words, model.vocab, [*gguf_end_tokens(header, words), *model.ends()])
    _check_tokens(name, model, vocabulary)
    length = placement.context(name, model.positions)
    checkpoint = LlamaCppCheckpoint(
        name,
        model,
        vocabulary,
        length,
        backend=LLAMA_CPP,
        format=header.format,
        kept=header.footprint.token_bytes("float16"),
    )
    said = "repacked weights" if model.repacked else "weights as the file has them"
    texts = checkpoint.room_for_texts(free_memory("cpu"))
    seconds = time.monotonic() - started
    _log.info("loaded %r in %.2f s: %s, %s%s", name, seconds, checkpoint.summary, said, texts)
    return checkpoint


def resolved(placement: Placement) -> Placement:
    """Return the placement with its device: the CPU, or None for the GPU of the library."""
    if placement.device is None and not library().llama_supports_gpu_offload():
        return replace(placement, device="cpu")
    return placement


def _require_file(name: str, where: str, placement: Placement) -> None:
    if not where.lower().endswith(GGUF):
        raise ModelError(f"backend={LLAMA_CPP!r} needs a GGUF file, not {name!r}")
    if placement.dtype is not None:
        raise ModelError(
            f"backend={LLAMA_CPP!r} computes in the number types of the file, and "
            f"dtype={placement.dtype!r} works only with transformers; leave out one of the two"
        )


def _loaded(name: str, header: GGUFHeader, accelerated: bool) -> GGMLModel:
    """Return the model. Raises ModelError if it is not a decoder."""
    threads, cells = _threads(header), FEWEST
    if any(tensor.name == LONG for tensor in header.tensors):
        # llama.cpp uses the factors of long texts for all texts if the context has room for a long
        # text. In a smaller context the factors would change when the context grows.
        cells += header.number("rope.scaling.original_context_length", 4096) or 0
        warn(f"llama.cpp reads all texts of {name!r} with its rotary factors for long texts")
    model = GGMLModel(header.path, threads=threads, accelerated=accelerated, cells=cells)
    if not model.is_causal or header.of_model("attention.causal") is False:
        raise ModelError(
            f"{name!r} ({header.architecture}) is not a causal language model; marith needs one"
        )
    return model


def _require_memory(name: str, header: GGUFHeader, accelerated: bool) -> None:
    """Raise ModelError if the files are larger than the free memory."""
    free, size = free_memory("cpu"), header.all_bytes
    if not accelerated and size > free:
        raise ModelError(
            f"{name!r} is a file of {bytes_text(size)}, and {bytes_text(free)} of memory is free; "
            "use a file with fewer bits per weight"
        )


def _accelerated(placement: Placement, lib: Any) -> bool:
    """Return True if all layers are placed on the GPU that the library was built for."""
    supported = bool(lib.llama_supports_gpu_offload())
    device_name("device", placement.device, ModelError)
    if placement.device is None:
        return supported
    wanted = torch.device(placement.device).type != "cpu"
    if wanted and not supported:
        raise ModelError(
            f"this llama.cpp was built for the CPU only, and device={placement.device!r} needs "
            "a GPU build; see docs/how-to/gguf.md"
        )
    return wanted


def _threads(header: GGUFHeader) -> int:
    """Return the number of threads: all that the process may use, or 1 for a small model.

    The threads of a small model would mostly wait.
    """
    matrices = [tensor.size for tensor in header.tensors if len(tensor.shape) > 1]
    small = sum(matrices) < SMALL * len(matrices)
    return 1 if small else max(1, torch.get_num_threads() or os.cpu_count() or 1)


def _check_tokens(name: str, model: GGMLModel, vocabulary: Vocabulary) -> None:
    """Warn if the tokenizer and llama.cpp's own tokenizer return different tokens for a text.

    llama.cpp ends the process if its vocabulary has no token for a character of a text.
    """
    # A vocabulary with one of these two tokens has a token for every byte.
    by_letters = vocabulary.raw.get_vocab()
    if not model.has_tokenizer or not ("<0x0A>" in by_letters or "Ġ" in by_letters):
        return
    for text in _TEXTS:
        if model.tokens(text) != vocabulary.encode(text):
            warn(
                f"the tokenizer that marith built for {name!r} and llama.cpp's tokenizer read "
                f"{text[:24]!r}… as different tokens; pass the model's own tokenizer as tokenizer=…"
            )
            return
