"""Print what a text over bytes costs, beside the same number of terms over tokens.

    python -m tools.byte_measures.cost BASE.gguf [OTHER.gguf ...]

Over bytes, a formula is the mean of one, two, … models. Over tokens, it is the mean of as many
system prompts of the base model. The ways are timed in turn, each text after a warm one of the same
prompt, and the figures are medians with their range. Texts are drawn, because the likeliest text of
several models may be nothing but line breaks. A byte's host time is what is not spent in forward
passes. It is the least that a byte would cost if passes were free.
"""

import time
from collections import defaultdict
from statistics import median
from typing import Annotated

import typer

from marith import Completion, Engine, Prompted
from marith.scoring.terms.prompted_scorer import PromptedScorer

QUESTION = "Tell me a long story about a lighthouse and its keeper."
BYTES, TOKENS = 96, 24


def main(
    models: list[str],
    rounds: Annotated[int, typer.Option(help="Texts of each way.")] = 5,
    dtype: Annotated[str, typer.Option(help="The number type of the models.")] = "float32",
) -> None:
    """Time each way in turn, and print a table."""
    base, *others = models
    spent = _timed_passes()
    terms = {f"m{i}": Prompted(model=name, dtype=dtype) for i, name in enumerate(others, 1)}
    prompts = {f"p{i}": f"You are number {i}." for i in range(1, len(models))}
    times: dict[tuple[str, int], list[tuple[float, float, Completion]]] = defaultdict(list)
    with (
        Engine.load(base, dtype=dtype) as tokens,
        Engine.load(base, dtype=dtype, over="bytes") as over_bytes,
    ):
        ways = (
            ("tokens", tokens, prompts, "p", TOKENS),
            ("bytes", over_bytes, terms, "m", BYTES),
        )
        for number in range(rounds + 1):
            for count in range(1, len(models) + 1):
                for over, engine, own, letter, size in ways:
                    names = ["M", *(f"{letter}{i}" for i in range(1, count))]
                    spent.clear()
                    started = time.perf_counter()
                    done = engine.generate(
                        QUESTION, _mean(names), own, seed=number, max_tokens=size,
                        speculation=None,
                    )  # fmt: skip
                    seconds = time.perf_counter() - started
                    # The first round loads the models and reads the prompts.
                    if number:
                        times[over, count].append((seconds, sum(spent), done))
        print("| terms | over | ms a byte | host | passes a byte | ms a token of the base |")
        print("|---" * 6 + "|")
        for (over, count), found in sorted(times.items(), key=lambda item: item[0][::-1]):
            sizes = [len(done.text.encode()) for _, _, done in found]
            written = sum(len(tokens.encode(done.text)) for _, _, done in found)
            each = [1e3 * one[0] / size for one, size in zip(found, sizes, strict=True)]
            host = [1e3 * (one[0] - one[1]) / size for one, size in zip(found, sizes, strict=True)]
            passes = sum(done.stats.passes for _, _, done in found) / sum(sizes)
            print(
                f"| {count} | {over} | {median(each):.1f} [{min(each):.1f}, {max(each):.1f}] "
                f"| {median(host):.1f} | {passes:.2f} | {median(each) * sum(sizes) / written:.0f} |"
            )


def _mean(names: list[str]) -> str:
    """Return the mean of some terms as a formula."""
    return " + ".join(f"{1 / len(names)}*{name}" for name in names)


def _timed_passes() -> list[float]:
    """Return a list to which the seconds of each round of passes are added, from now on."""
    spent: list[float] = []
    score = PromptedScorer.score

    def timed(self: PromptedScorer, spans: list) -> list:
        started = time.perf_counter()
        answers = score(self, spans)
        # A subclass asks this method for its own passes.
        spent.append(time.perf_counter() - started)
        return answers

    PromptedScorer.score = timed
    return spent


if __name__ == "__main__":
    typer.run(main)
