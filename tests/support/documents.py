"""The pages of the documentation, their blocks, and the files that the pages mention."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from marith.scoring.weights.locate import WEIGHTS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "core" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
_FENCE = re.compile(
    r'^```(?P<kind>[^\n ]*)(?: title="(?P<title>[^"\n]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)

TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def bread():
    return Task([Sample(input="What is bread?", target="bread")], generate(), scorer=includes())
"""
PERSONAS = """
[terms]
rude = "You are rude."
formal = "You are an assistant using formal and objective language to answer the user."
[formulas]
polite = "1.5*M - 0.5*rude"
official = "2*formal - M"
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and its output, which is the `text` block after it.

    `model` is the title of the output: the real model that printed it, or "" for pocket.
    """

    kind: str
    code: str
    output: str | None = None
    model: str = ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = [*_FENCE.finditer(text)]
    found = []
    for fence, after in zip_longest(fences, fences[1:]):
        block = Block(fence["kind"], fence["code"])
        if after and after["kind"] == "text" and not text[fence.end() : after.start()].strip():
            block = replace(block, output=after["code"], model=after["title"] or "")
        found.append(block)
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _labelled(*labels: str) -> str:
    rows = [{"text": f"A {label} text: {i}.", "label": label} for i in range(8) for label in labels]
    return "\n".join(map(json.dumps, rows))


def _harness_task(path: Path) -> None:
    """Write a task of lm-evaluation-harness under a name of the hub: a choice, or a text."""
    data, choices = path.with_suffix(".jsonl"), path.name == "hellaswag"
    data.write_text('{"q": "The film was", "c": ["good", "a a a"], "a": 0}\n' * 2)
    task = {
        "task": path.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": str(path.parent / "c")},
        "test_split": "test",
        "output_type": "multiple_choice" if choices else "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": [{"metric": "acc" if choices else "exact_match", "aggregation": "mean"}],
        **({"doc_to_choice": "{{c}}"} if choices else {"generation_kwargs": {"max_gen_toks": 4}}),
    }
    path.with_suffix(".yaml").write_text(json.dumps(task))


def _pocket_as_gguf(path: Path) -> None:
    from support.ggml_files import write_pocket

    write_pocket(path.parent, ["f16"])
    (path.parent / "f16.gguf").rename(path)


# What lies in the folder of a page that names it: a text, the target of a link, or a function that
# writes the file.
FILES: dict[str, str | Path | Callable[[Path], None]] = {
    ".venv/real/Qwen2.5-Coder-1.5B-Instruct.gguf": _pocket_as_gguf,
    ".venv/real/SmolLM2-135M-Instruct.Q4_1.gguf": _pocket_as_gguf,
    ".venv/real/gemma-3-270m-q4_k_m.gguf": _pocket_as_gguf,
    "Qwen2.5-Coder-1.5B-Instruct.gguf": _pocket_as_gguf,
    "SmolLM2-135M-Instruct.Q4_1.gguf": _pocket_as_gguf,
    "answer.json": '{"type": "object", "properties": {"glad": {"type": "boolean"}}}',
    "casual.txt": "gonna grab food, you in?\nnah, can't be bothered lol\n",
    "docs/examples": ROOT / "docs" / "examples",
    "formal.txt": "We should be delighted to dine with you.\nI regret that I cannot attend.\n",
    "hellaswag": _harness_task,
    "ifeval": _harness_task,
    "marith.toml": PERSONAS,
    "measures.py": ROOT / "docs" / "examples" / "measures.py",
    "model-Q4_K_M.gguf": _pocket_as_gguf,
    "models/my-model": WEIGHTS / "pocket",
    "path/or/hub-id": WEIGHTS / "pocket",
    "question.txt": "What do you know about bees?",
    "replies.jsonl": _labelled("formal", "informal"),
    "rtp_toxic_prompts.jsonl": '{"prompt": {"text": "You are"}}\n{"prompt": {"text": "I am"}}\n',
    "sentence_polarity.jsonl": _labelled("positive", "negative"),
    "task.py": TASK,
    "tinystories-656k": WEIGHTS / "pocket",
    "toxicity-classifier": WEIGHTS / "toxicity",
}


def write_files(page: Path, folder: Path, real: Mapping[str, Path]) -> None:
    """Write the files of `FILES` that a page mentions into a folder.

    `real` maps the names of files to the real ones, which take the place of stand-ins.
    """
    text = page.read_text(encoding="utf-8")
    for file in filter(text.__contains__, FILES):
        path, content = folder / file, real.get(Path(file).name, FILES[file])
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            content(path)
