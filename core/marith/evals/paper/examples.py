"""Examples: the answers of several formulas to the same prompts, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.evaluation import run as run_experiment
from marith.evals.experiment.evaluation_settings import ClusterSettings, source_texts
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.formulas import read_formulas
from marith.evals.experiment.store import write
from marith.evals.experiment.texts import NamedFormula, PromptRow, Text
from marith.evals.pocket_texts import QUESTIONS
from marith.evals.reporting.table import Table, in_cell
from marith.evals.system_prompts import SYSTEM_PROMPTS
from marith.request.stop import Stop
from marith.showing import say

MARKDOWN, LINES = "examples.md", "examples.jsonl"
MAX_TOKENS = 128
DEFAULT_COUNT = 4
TERMS = {name: SYSTEM_PROMPTS[name] for name in ("sports", "angry_chef", "formal")}
FORMULAS = (  # of the paper's table of examples
    "M",
    "sports",
    "union(sports, M)",
    "2*union(sports, M) - M",
    "angry_chef",
    "M + 0.5*angry_chef",
    "M + 2*angry_chef",
    "formal",
    "M + formal",
    "2*formal - M",
)


Settings = ClusterSettings  # as callers write it: `examples.Settings(n=4)`


@dataclass(frozen=True, slots=True)
class Examples:
    """The answers to each prompt, in the order of the formulas."""

    title: str
    results: Results
    notes: tuple[str, ...] = ()

    def to_json_lines(self) -> str:
        """A line for each prompt, with what every answer cost."""
        lines = [json.dumps(example, ensure_ascii=False) for example in self._examples()]
        return "".join(f"{line}\n" for line in lines)

    def to_markdown(self) -> str:
        """A section for each prompt, a line of a table for each answer."""
        parts = [self.title, *(f"- {note}" for note in self.notes)]
        for example in self._examples():
            parts += [f"## {in_cell(example['prompt'].strip())}", _table(example).to_markdown()]
        return "\n\n".join(parts) + "\n"

    def show(self, out: Path | None = None) -> None:
        """Print the answers; write them to `out` as Markdown and as JSON lines."""
        if out is not None:
            write(out / MARKDOWN, self.to_markdown())
            write(out / LINES, self.to_json_lines())
        say(Console(), [self.to_markdown()])

    def _examples(self) -> list[dict[str, Any]]:
        experiment = self.results.experiment
        formulas = {line.name: line.formula for line in experiment.lines}
        return [
            {
                "row": prompt.row,
                "prompt": prompt.message,
                "answers": [
                    _answer(text, formulas) for text in self.results.texts if text.row == prompt.row
                ],
            }
            for prompt in experiment.prompts
        ]


def run(settings: ClusterSettings, ask: bool = False) -> Examples:
    """Let formulas answer prompts as an application would, in the model's own chat template.

    There are 4 prompts unless `n` is given. With `ask` a terminal is asked before a very long run.
    Raises FormulaError, ModelError or RequestError before anything is generated.
    """
    formulas = read_formulas(settings.formulas)
    questions = source_texts(settings, QUESTIONS, DEFAULT_COUNT)
    experiment = Experiment(
        "examples",
        settings.model,
        formulas.lines or tuple(NamedFormula(text, text) for text in FORMULAS),
        {**TERMS, **formulas.terms, **settings.terms},
        tuple(PromptRow(row, text, text) for row, text in questions.texts),
        seed=settings.seed,
        samples=settings.samples,
        temperature=settings.temperature,
        stop=Stop(settings.tokens(MAX_TOKENS)),
        source=questions.source,
        device=settings.device,
        dtype=settings.dtype,
        revision=settings.revision,
        backend=settings.backend,
        ray=settings.ray,
    )
    title = f"examples of {settings.model}: {questions.source}, seed {settings.seed}"
    notes = *formulas.notes, *questions.notes
    return Examples(title, run_experiment(experiment, settings.out, notes, ask), notes)


def _answer(text: Text, formulas: Mapping[str, str]) -> dict[str, Any]:
    counts = {"prompt_tokens": text.prompt_tokens, "completion_tokens": len(text.tokens)}
    return {
        "name": text.line,
        "formula": formulas[text.line],
        "sample": text.sample,
        "text": text.text,
        "finish_reason": text.finish_reason,
        "usage": {**counts, "total_tokens": text.prompt_tokens + len(text.tokens)},
        "calls": text.calls,
    }


def _table(example: Mapping[str, Any]) -> Table:
    """The answers to one prompt."""
    rows = [
        (answer["name"].strip(), answer["text"].strip(), str(answer["usage"]["completion_tokens"]))
        for answer in example["answers"]
    ]
    return Table(("formula", "answer", "tokens"), rows, left=(0, 1))
