"""What bfloat16, int8 and int4 cost: bits per byte of texts, and how far composed formulas move.

    python -m tools.few_bits [--texts FILE.jsonl --model DIRECTORY]

For pocket, texts are drawn from it in float32. Distances are total variation to float32, over the
next token after 32 beginnings: 0.5 Σ |P - Q|.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from torch import Tensor

import marith
from marith.formula.meaning.amplification import amplification
from marith.formula.meaning.binding import parse

FORMATS: dict[str, dict[str, Any]] = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "int8": {"dtype": "float32", "quantize": "int8"},
    "int4": {"dtype": "float32", "quantize": "int4"},
}
FORMULAS = (
    "M",
    "2*M - toxic",
    "M - 0.96*union(toxic, M)",
    "M - 0.96*union(toxic, M) + 0.04*C",
)
TERMS = {
    "M": marith.Prompted(template="plain"),
    "toxic": marith.Prompted(
        "The following conversation is threatening and contains profane language.", template="plain"
    ),
    "C": marith.Classifier("pocket-toxicity", label="civil"),
}
MESSAGES = (
    "You are a useless idiot.", "Get lost, nobody likes you.", "What did you do at the weekend?",
    "Your soup is bad.", "I hate my boss.", "Tell me of your garden.", "You smell.",
    "Thanks, moron.",
)  # fmt: skip
BEGUN = "", " I", " I am", " I am sorry that you"


def bits_per_byte(engine: marith.Engine, texts: Sequence[str]) -> float:
    """Of texts that follow one space."""
    bare = {"M": TERMS["M"]}
    bits = -sum(sum(engine.score(" ", text, "M", bare)) for text in texts) / math.log(2)
    return bits / sum(len(text.encode()) for text in texts)


def beginnings() -> list[str]:
    """What the next token follows."""
    return [f"Person 1: {said}\nPerson 2:{begun}" for said in MESSAGES for begun in BEGUN]


def distributions(engine: marith.Engine, formula: str) -> list[Tensor]:
    """The probabilities of the next token after each beginning, [vocab]."""
    return [engine.next_logprobs(text, formula, TERMS).double().exp() for text in beginnings()]


def drawn(count: int = 100) -> list[str]:
    """Texts of pocket."""
    with marith.Engine.load("pocket") as engine:
        sampling = [marith.Sampling(seed=seed) for seed in range(count)]
        asked = [engine.submit(marith.Request(" ", "M", sampling=each, stop=marith.Stop(64)))
                 for each in sampling]  # fmt: skip
        return [text for ticket in asked if (text := ticket.result().text.strip())]


def main() -> None:
    """Print two tables in markdown."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--texts", type=Path)
    options.add_argument("--model")
    given = options.parse_args()
    corpora = {"pocket": drawn()}
    if given.texts:
        lines = given.texts.read_text(encoding="utf-8").splitlines()[:120]
        corpora[given.model] = [str(next(iter(json.loads(line).values())))[:700] for line in lines]
    print("| bits per byte |", " | ".join(FORMATS), "|\n|---|" + "---:|" * len(FORMATS))
    for model, texts in corpora.items():
        figures = []
        for how in FORMATS.values():
            with marith.Engine.load(model, **how) as engine:
                figures.append(f"{bits_per_byte(engine, texts):.4f}")
        print(f"| {Path(model).name} |", " | ".join(figures), "|")
    print("\n| formula | enlarges |", " | ".join([*FORMATS][1:]), "|\n|---|---:|---:|---:|---:|")
    found: dict[str, list[list[Tensor]]] = {}
    for name, how in FORMATS.items():
        with marith.Engine.load("pocket", **how) as engine:
            found[name] = [distributions(engine, formula) for formula in FORMULAS]
    for i, formula in enumerate(FORMULAS):
        cells = []
        for name in [*FORMATS][1:]:
            pairs = zip(found["float32"][i], found[name][i], strict=True)
            distances = [float((a - b).abs().sum()) / 2 for a, b in pairs]
            cells.append(f"{mean(distances):.4f}, {max(distances):.4f}")
        print(
            f"| `{formula}` | {amplification(parse(formula), TERMS):.0f} |", " | ".join(cells), "|"
        )


if __name__ == "__main__":
    main()
