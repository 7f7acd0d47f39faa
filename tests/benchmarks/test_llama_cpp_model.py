"""What the bench writes for llama.cpp is the model: its logits are those of transformers.

Where llama-cpp-python is absent it is skipped: `make bench` installs it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.benchmark_settings import LlamaShape
from benchmarks.gguf_file import write_gguf
from benchmarks.llama_cpp_model import LlamaCppModel, trial
from benchmarks.timed_model import TimedModel

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make bench` installs it")
PROMPTS = [3, 5, 9, 11], [7, 8, 2, 40, 33], [4]


@pytest.mark.parametrize(
    ("numbers", "tolerance"), [("f32", 1e-3), ("f16", 1e-3), ("q8_0", 0.03), ("q4_0", 0.3)]
)
def test_the_gguf_file_computes_what_transformers_computes(
    tmp_path: Path, numbers: str, tolerance: float
) -> None:
    """Its keys and values are in f16 whatever its weights are in."""
    subject = TimedModel.of(shape=LlamaShape.parse("128,2,4,256,64"))
    path = tmp_path / f"{numbers}.gguf"
    write_gguf(subject.model, path, numbers)
    model = LlamaCppModel(path, 3, 40, 2, repacked=trial(path, 3, 20, 8, 2) is None)
    with torch.no_grad():
        wanted = [subject.model(torch.tensor([one])).logits[0, -1] for one in PROMPTS]
    found = torch.from_numpy(model.read(PROMPTS))
    assert float((found - torch.stack(wanted)).abs().max()) < tolerance
    assert [len(text) for text in model.write(PROMPTS, 8, 0)] == [8, 8, 8]
    first = model.write(PROMPTS, 8, 1)
    assert model.write(PROMPTS, 8, 1) == first
