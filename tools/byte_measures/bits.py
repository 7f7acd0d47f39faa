"""Print the bits a byte of texts under formulas over bytes, and the differences from the first.

    python -m tools.byte_measures.bits BASE.gguf --other OTHER.gguf

`M` is the first model and `N` the other one. The texts are read without a prompt.
"""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from marith import Engine, Prompted
from marith.evals.statistics import difference
from tools.byte_measures.texts import texts

FORMULAS = ["N", "M", "0.25*M + 0.75*N", "0.5*M + 0.5*N", "0.75*M + 0.25*N"]


def main(
    base: str,
    other: Annotated[str, typer.Option(help="The model that a formula calls N.")],
    formula: Annotated[list[str], typer.Option(help="A formula; may be repeated.")] = FORMULAS,
    data: Annotated[Path | None, typer.Option(help="JSON: a name and its text.")] = None,
    dtype: Annotated[str | None, typer.Option(help="The number type of the models.")] = None,
) -> None:
    """Score each text under each formula, and print a table."""
    found = texts() if data is None else json.loads(data.read_text(encoding="utf-8"))
    terms = {
        "M": Prompted(template="plain"),
        "N": Prompted(model=other, template="plain"),
    }
    bits: dict[str, list[float]] = {}
    with Engine.load(base, dtype=dtype, over="bytes") as engine:
        for one in formula:
            typer.echo(f"scoring {len(found)} texts under {one}", err=True)
            scored = [engine.submit_scoring("", text, one, terms) for text in found.values()]
            bits[one] = [
                -sum(future.result().logprobs) / math.log(2) / len(text.encode())
                for text, future in zip(found.values(), scored, strict=True)
            ]
    kinds = {name: name.rpartition("-")[0] for name in found}
    columns = [*dict.fromkeys(kinds.values())]
    print(f"| bits a byte | {' | '.join(columns)} | all | less than {formula[0]} |")
    print("|---" * (len(columns) + 3) + "|")
    for one, each in bits.items():
        of_text = dict(zip(found, each, strict=True))
        means = [_mean([of_text[n] for n in found if kinds[n] == kind]) for kind in columns]
        gain = difference(each, bits[formula[0]])
        row = " | ".join(f"{number:.3f}" for number in [*means, _mean(each)])
        print(f"| `{one}` | {row} | {gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}] |")
    print(f"\n{len(found)} texts, {sum(len(text.encode()) for text in found.values())} bytes")


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


if __name__ == "__main__":
    typer.run(main)
