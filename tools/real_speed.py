"""Print the time to the first token and per token of a GGUF file, by all programs that run it.

Run as `python -m tools.real_speed FILE.gguf`: five minutes on two cores, if nothing else runs. All
programs load the file first, and are timed in turn. The time per token leaves out the first token.
"""

import importlib.util
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

# marith is imported before torch, because it chooses how OpenMP's threads wait.
import marith

TERMS = (1, 2, 4, 8)
QUESTION = "Tell me about the moon, in the voice of number"
Run = Callable[[str, int], object]  # takes a question, and the number of tokens of the answer


def composed(engine: marith.Engine, count: int) -> Run:
    """Return a function that generates by a sum of `count` terms with own system prompts."""
    terms = {f"t{i}": f"You are number {i}, who explains things." for i in range(count)}
    formula = " + ".join(f"{1 / count}*{name}" for name in terms)

    def run(question: str, tokens: int) -> object:
        return engine.generate(
            question,
            formula,
            terms,
            temperature=0,
            max_tokens=tokens,
            ignore_eos=True,
            speculation=None,
        )

    return run


def plain_runs(file: Path) -> dict[str, Run]:
    """Return functions that generate by transformers in float32, and by llama.cpp alone."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)

    def ids(question: str) -> list[int]:
        asked = [{"role": "user", "content": question}]
        return tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)

    def by_transformers(question: str, tokens: int) -> object:
        lengths = {"min_new_tokens": tokens, "max_new_tokens": tokens}
        return model.generate(torch.tensor([ids(question)]), do_sample=False, **lengths)

    if not importlib.util.find_spec("llama_cpp"):
        return {"transformers generate": by_transformers}
    from benchmarks.llama_cpp_model import LlamaCppModel, trial

    threads = torch.get_num_threads()
    # On some processors llama.cpp crashes with repacked weights, so another process tries it first.
    repacked = trial(file, 1, 64, 4, threads) is None
    library = LlamaCppModel(file, 1, 1024, threads, repacked=repacked)

    def by_llama_cpp(question: str, tokens: int) -> object:
        return library.write([ids(question)], tokens, seed=0)

    name = f"llama.cpp alone{'' if repacked else ', without use_extra_bufts'}"
    return {"transformers generate": by_transformers, name: by_llama_cpp}


def seconds(run: Run, question: str, tokens: int) -> float:
    start = time.perf_counter()
    run(question, tokens)
    return time.perf_counter() - start


def main(
    file: Annotated[Path, typer.Argument(exists=True)],
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    tokens: Annotated[int, typer.Option(min=2)] = 33,
) -> None:
    runs = plain_runs(file)
    engines = {"marith, torch": marith.Engine.load(file, device="cpu")}
    if importlib.util.find_spec("llama_cpp"):
        engines["marith, llama.cpp"] = marith.Engine.load(file, backend="llama.cpp")
    for name, engine in engines.items():
        runs |= {f"{name}, {count} terms": composed(engine, count) for count in TERMS}
    first, each = defaultdict(list), defaultdict(list)
    for turn in range(rounds + 1):
        for name, run in runs.items():
            question = f"{QUESTION} {turn}."
            begun = seconds(run, question, 1)
            # Another question is asked, so that no prefix of it is cached.
            whole = seconds(run, f"Again: {question}", tokens) - begun
            # The first round only warms up.
            if turn:
                first[name].append(begun)
                each[name].append(whole / (tokens - 1))
    table = Table("", "first token, ms", "a token, ms: median (range)", title=file.name)
    for name in runs:
        row = [1000 * value for value in each[name]]
        times = f"{median(row):.1f} ({min(row):.1f}-{max(row):.1f})"
        table.add_row(name, f"{1000 * median(first[name]):.0f}", times)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
