"""A model of llama.cpp that generates many texts at once, one token of each in a step.

It imports no torch, so that a process that tries it starts fast.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marith.scoring.weights.llama_cpp.ggml import library

Logits: TypeAlias = "NDArray[np.float32]"
_ROOT = Path(__file__).parents[1]  # where this package is found
_BATCH = 2048  # tokens of a call
_TRIAL = """
import sys
from pathlib import Path
from benchmarks.llama_cpp_model import LlamaCppModel
path, texts, length, tokens, threads = sys.argv[1], *map(int, sys.argv[2:])
model = LlamaCppModel(Path(path), texts, length + tokens, threads, repacked=True)
model.write([[1 + i] * length for i in range(texts)], tokens, seed=0)
"""


class LlamaCppModel:
    """A GGUF file with room for `texts` texts of `length` tokens. Keeps the tokens it has read.

    With `repacked`, llama.cpp's parameter `use_extra_bufts`, it lays out weights for the
    processor's own matrix products. Raises RuntimeError for a file that llama.cpp does not load.
    """

    def __init__(self, path: Path, texts: int, length: int, threads: int, repacked: bool) -> None:
        lib = self._lib = library()
        options = lib.llama_model_default_params()
        options.use_extra_bufts, options.n_gpu_layers = repacked, 0
        self._model = lib.llama_model_load_from_file(str(path).encode(), options)
        if not self._model:
            raise RuntimeError(f"it does not load {path.name}")
        run = lib.llama_context_default_params()
        run.n_ctx, run.n_seq_max, run.n_batch = texts * length, texts, _BATCH
        run.n_threads = run.n_threads_batch = threads
        self._context = lib.llama_init_from_model(self._model, run)
        self._batch = lib.llama_batch_init(_BATCH, 0, 1)
        self.vocab = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model)))
        weakref.finalize(self, _free, lib, self._batch, self._context, self._model)

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        tokens: int,
        seed: int,
        drawn: Callable[[], None] | None = None,
    ) -> list[list[int]]:
        """Generate `tokens` tokens after each prompt, sampled from the whole distribution.

        `drawn` is called each time all texts have one more token.
        """
        draw = np.random.default_rng(seed)
        texts: list[list[int]] = [[] for _ in prompts]
        rows = self.read(prompts)
        for step in range(tokens):
            for text, token in zip(texts, _drawn(rows, draw), strict=True):
                text.append(token)
            if drawn is not None:
                drawn()
            if step + 1 < tokens:
                places = (len(prompt) + step for prompt in prompts)
                items = zip((text[-1] for text in texts), places, strict=True)
                rows = self._decode([(*item, i, True) for i, item in enumerate(items)])
        return texts

    def read(self, prompts: Sequence[Sequence[int]]) -> Logits:
        """Return logits [texts, vocab] after prompts, which are read as new texts."""
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        return self._decode(
            [
                (token, place, i, place == len(prompt) - 1)
                for i, prompt in enumerate(prompts)
                for place, token in enumerate(prompt)
            ]
        )

    def _decode(self, items: Sequence[tuple[int, int, int, bool]]) -> Logits:
        """Return logits [wanted, vocab] of tokens, each with position, text, and a flag."""
        rows: list[Any] = []
        for start in range(0, len(items), _BATCH):
            part, batch = items[start : start + _BATCH], self._batch
            batch.n_tokens = len(part)
            for i, (token, place, text, wanted) in enumerate(part):
                batch.token[i], batch.pos[i], batch.logits[i] = token, place, wanted
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, text
            if error := self._lib.llama_decode(self._context, batch):
                raise RuntimeError(f"llama_decode returns {error}")
            for i, item in enumerate(part):
                if item[3]:
                    row = self._lib.llama_get_logits_ith(self._context, i)
                    rows.append(np.ctypeslib.as_array(row, shape=(self.vocab,)).copy())
        return np.stack(rows)


def trial(path: Path, texts: int, length: int, tokens: int, threads: int) -> str | None:
    """Return how a process ends that generates with repacked weights, or None if it ends well."""
    numbers = map(str, (texts, length, tokens, threads))
    command = [sys.executable, "-c", _TRIAL, str(path), *numbers]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)  # noqa: S603
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    return f"failed: {(done.stderr.strip() or 'without a word').splitlines()[-1]}"


def _drawn(rows: Logits, draw: np.random.Generator) -> list[int]:
    """Sample a token from each row of logits [vocab]."""
    mass = np.exp(rows - rows.max(axis=1, keepdims=True)).cumsum(axis=1)
    chances = draw.random(len(rows), dtype=np.float32) * mass[:, -1]
    last = rows.shape[1] - 1
    pairs = zip(mass, chances, strict=True)
    return [min(int(np.searchsorted(row, chance, "right")), last) for row, chance in pairs]


def _free(lib: Any, batch: Any, context: Any, model: Any) -> None:
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
