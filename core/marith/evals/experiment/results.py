"""What an evaluation came to: all its texts, and every number that a measure gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.texts import Text
from marith.evals.metrics.metric import Values


@dataclass(frozen=True, slots=True)
class Results:
    """The texts in the order of lines, prompts and samples; their values by measure."""

    experiment: Experiment
    texts: tuple[Text, ...]
    values: Mapping[str, Values]

    def by_prompt(self, line: str, measure: str) -> list[float | None]:
        """For each prompt the mean over its samples; None where none of them has a number."""
        by_key, samples = self.values[measure], range(self.experiment.samples)
        means: list[float | None] = []
        for prompt in self.experiment.prompts:
            values = [by_key[line, prompt.row, sample] for sample in samples]
            present = [value for value in values if value is not None]
            means.append(fmean(present) if present else None)
        return means

    def of_line(self, line: str) -> list[Text]:
        """A line's texts."""
        return [text for text in self.texts if text.line == line]
