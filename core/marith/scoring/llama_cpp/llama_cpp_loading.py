"""A GGUF file as a checkpoint that llama.cpp computes."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.checkpoints.checkpoint import Checkpoint
from marith.scoring.checkpoints.footprint import amount, said_of_texts
from marith.scoring.checkpoints.gguf.gguf_header import GGUFHeader
from marith.scoring.checkpoints.gguf.gguf_tokenizer import ends_of
from marith.scoring.checkpoints.locate import GGUF
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.checkpoints.reading import header_of, tokenizer_of
from marith.scoring.cpu_threads import SMALL
from marith.scoring.free_memory import free_memory
from marith.scoring.llama_cpp.ggml_library import library
from marith.scoring.llama_cpp.ggml_model import GGMLModel
from marith.scoring.llama_cpp.repacking import may_repack
from marith.scoring.notices import warn
from marith.scoring.prompting.tokenizer import Vocabulary

LLAMA_CPP = "llama.cpp"
# Texts that tokenizers read in different ways: spaces, digits, signs, other scripts.
_TEXTS = (
    "Hello, world! It's 12345.67 o'clock  now.\n\n\tx = [i**2 for i in range(10)]",
    "Ça coûte 3 €; ¿qué? Привет, мир! 你好，世界。 مرحبا 🙂🏽 \u200d ﬁ",
    " leading and trailing   ",
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LlamaCppCheckpoint(Checkpoint):
    """A GGUF file that llama.cpp computes, in the numbers of the file."""

    format: str = ""
    accelerated: bool = False

    @property
    def summary(self) -> str:
        """The file's architecture, size in memory, type of numbers, and who computes it."""
        where = "a GPU" if self.accelerated else f"{self.model.threads} threads"
        return f"{amount(self.nbytes)}, {self.format} by llama.cpp on {where}"

    @property
    def device(self) -> torch.device:
        """Log-probabilities are composed on the CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> str:
        """Checkpoints of transformers that stand beside it are on the CPU, in float32."""
        return str(torch.float32)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """None of torch's."""
        return ()

    @property
    def nbytes(self) -> int:
        """What its weights weigh."""
        return int(self.model.nbytes)

    @property
    def threads(self) -> int | None:
        """One of torch's composes: others would wait where llama.cpp's threads compute."""
        return 1

    @property
    def rounds_coarsely(self) -> tuple[str, str] | None:
        """llama.cpp keeps keys and values in float16, and rounds what goes into its products."""
        return (
            f"llama.cpp rounds coarsely in {self.format}",
            "backend=None with dtype='float32' computes what the file holds exactly",
        )


def llama_cpp_checkpoint(
    name: str, where: str, placement: Placement, tokenizer: Any = None
) -> Checkpoint:
    """A GGUF file, loaded by llama.cpp. Raises ModelError for what it cannot load.

    `tokenizer` is for a file whose own cannot be built.
    """
    begun = time.monotonic()
    _require_file(name, where, placement)
    lib, header = library(), header_of(name, where, placement.revision)
    accelerated = _accelerated(placement, lib)
    threads = _threads(header)
    formats = " ".join(sorted({tensor.kind for tensor in header.tensors}))
    repacked = not accelerated and may_repack(header.path, formats, threads)
    require_memory_of_file(name, header, accelerated)
    words = tokenizer_of(name, header, tokenizer)  # before the weights, which may be large
    model = GGMLModel(header.path, threads=threads, repacked=repacked, accelerated=accelerated)
    vocabulary = Vocabulary(words, model.vocab, [*ends_of(header, words), *model.ends()])
    _check_tokens(name, model, vocabulary)
    length = placement.context(name, model.positions)
    checkpoint = LlamaCppCheckpoint(
        name,
        model,
        vocabulary,
        length,
        backend=LLAMA_CPP,
        most_lanes=int(lib.llama_max_parallel_sequences()),
        format=header.format,
        accelerated=accelerated,
    )
    said = "repacked weights" if repacked else "weights as the file has them"
    texts = said_of_texts(header.footprint.token_bytes("float16"), length, free_memory("cpu"))
    seconds = time.monotonic() - begun
    _log.info("loaded %r in %.2f s: %s, %s%s", name, seconds, checkpoint.summary, said, texts)
    return checkpoint


def _require_file(name: str, where: str, placement: Placement) -> None:
    if not where.endswith(GGUF):
        raise ModelError(f"backend={LLAMA_CPP!r} reads GGUF files, and {name!r} is none")
    for option in ("dtype", "quantize"):
        if (value := getattr(placement, option)) is not None:
            raise ModelError(
                f"backend={LLAMA_CPP!r} computes in the numbers of the file; "
                f"{option}={value!r} is for transformers: leave out one of them"
            )


def require_memory_of_file(name: str, header: GGUFHeader, accelerated: bool) -> None:
    """Raises ModelError for a file that is larger than the memory that is free."""
    free = free_memory("cpu")
    if not accelerated and header.parts == 1 and header.nbytes > free:
        raise ModelError(
            f"{name!r} is a file of {amount(header.nbytes)}, and {amount(free)} of memory is free; "
            "a file of fewer bits takes less"
        )


def _accelerated(placement: Placement, lib: Any) -> bool:
    """Whether all layers are on the GPU that the library was built for."""
    supported = bool(lib.llama_supports_gpu_offload())
    if placement.device is None:
        return supported
    wanted = torch.device(placement.device).type != "cpu"
    if wanted and not supported:
        raise ModelError(
            f"this llama.cpp was built for the CPU alone, and device={placement.device!r} is asked "
            "for; docs/how-to/gguf.md says how it is built for a GPU"
        )
    return wanted


def _threads(header: GGUFHeader) -> int:
    """As many as the process may use; one for a small model, whose threads would wait."""
    matrices = [tensor.size for tensor in header.tensors if len(tensor.shape) > 1]
    small = sum(matrices) < SMALL * len(matrices)
    return 1 if small else max(1, torch.get_num_threads() or os.cpu_count() or 1)


def _check_tokens(name: str, model: GGMLModel, vocabulary: Vocabulary) -> None:
    """Warn where the tokenizer and llama.cpp's own read a text in different ways."""
    for text in _TEXTS:
        if model.tokens(text) != vocabulary.encode(text):
            warn(
                f"the tokenizer that was built for {name!r} and llama.cpp's own read "
                f"{text[:24]!r}… in different ways; tokenizer=… takes the model's own"
            )
            return
