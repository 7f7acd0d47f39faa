"""Print how much memory loading takes at most, over what the loaded model takes.

Run as `python -m tools.loading_memory`. A random Llama of 478 million parameters is written as
safetensors in bfloat16, and as GGUF in F16 and Q4_0. A process of its own loads it in each way, and
reads /proc/self/status every 2 ms: memory of its own (`RssAnon`), and all that is resident, with
the pages of files that are mapped (`VmRSS`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine
from marith.testing.gguf_file import write_gguf
from tools.llama_cpp_cost import words_tokenizer

_VOCAB = 16_000
_SIZE = {
    "vocab_size": _VOCAB, "hidden_size": 1536, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 2048,
}  # fmt: skip
# By the file: what `Engine.load` is given.
WAYS = {
    "safetensors": [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"quantize": "int8"},
                    {"dtype": "bfloat16", "quantize": "int4"}],
    "f16.gguf": [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"quantize": "int8"},
                 {"dtype": "bfloat16", "quantize": "int4"}, {"backend": "llama.cpp"}],
    "q4_0.gguf": [{"dtype": "bfloat16"}, {"backend": "llama.cpp"}],
}  # fmt: skip
_KINDS = "RssAnon", "VmRSS"


def main() -> None:
    """Load in all ways, and print the table."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**_SIZE, bos_token_id=None, eos_token_id=None)).eval()
    tokenizer = words_tokenizer(_VOCAB)
    table = Table("file", "loaded", "MB after", "peak of its own", "peak of all resident")
    with tempfile.TemporaryDirectory() as folder:
        for numbers in ("f16", "q4_0"):
            write_gguf(model, Path(folder) / f"{numbers}.gguf", numbers, tokenizer, splits="gpt-2")
        home = Path(folder) / "safetensors"
        model.to(torch.bfloat16).save_pretrained(home)
        tokenizer.save_pretrained(home)
        del model
        for file, ways in WAYS.items():
            for how in ways:
                table.add_row(file, *_loaded(Path(folder) / file, how))
    Console().print(table)


def load(path: str, how: dict[str, str]) -> None:
    """Print MB after loading, and both peaks while loading, over what there was before."""
    with Engine.load("pocket", **{k: v for k, v in how.items() if k == "quantize"}) as engine:
        engine.next_logprobs("the sea")  # what every engine imports
    before, most, ended = _resident(), [0, 0], threading.Event()

    def watch() -> None:
        while not ended.is_set():
            most[:] = map(max, most, _resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    engine = Engine.load(path, device="cpu", **how)
    ended.set()
    watcher.join()
    after = _resident()
    print(after[0] - before[0], *(peak - first for peak, first in zip(most, before, strict=True)))
    print(engine, file=sys.stderr)


def _resident() -> list[int]:
    """kB in each kind of memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return [int(found[kind].split()[0]) for kind in _KINDS]


def _loaded(path: Path, how: dict[str, str]) -> tuple[str, str, str, str]:
    code = f"from tools.loading_memory import load; load({str(path)!r}, {how!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    after, own, resident = (int(one) / 1024 for one in done.stdout.split())
    said = ", ".join(f"{key}={value}" for key, value in how.items())
    return said, f"{after:.0f}", f"{own / after:.2f}", f"{resident / after:.2f}"


if __name__ == "__main__":
    main()
