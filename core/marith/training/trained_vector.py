"""A trained control vector, its report, and the file that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from torch import Tensor

from marith.console import OURS, THEIRS, counted, picture, print_table, say, terminal
from marith.errors import ModelError, RequestError
from marith.scoring.weights import control_vectors
from marith.scoring.weights.gguf.gguf_header import read_header
from marith.scoring.weights.locate import GGUF
from marith.training.directions import LayerLine
from marith.training.vector_settings import VectorSettings

# A strength times the size of the last layer, at which texts change and stay fluent:
# docs/reference/effects.md#control-vectors.
FIRST_SHIFT = 0.03
# The table is doubtful with fewer held-out texts.
FEWEST = 8
# The vector is doubtful if no layer reaches this area: prompts that hardly differ, such as "Answer
# the question." and "Please answer the question.", reach 0.76 to 0.78 on SmolLM2-135M-Instruct.
LEAST = 0.8
COLUMNS = ("layer", "AUC-ROC", "effect", "size", "chosen")


@dataclass(frozen=True, slots=True)
class VectorReport:
    """The results of a finished training of a control vector.

    `learned` and `held_out` are the numbers of texts of both sides together. `seconds` is the time
    of all passes. `lines` has a line for each decoder layer, from layer 0.
    """

    settings: VectorSettings
    learned: int
    held_out: int
    seconds: float
    lines: tuple[LayerLine, ...] = field(repr=False)

    @property
    def first_strength(self) -> float:
        """The strength to try first: about 0.03 / size at the last chosen layer, and at most 1."""
        size = [line.size for line in self.lines if line.chosen][-1]
        return float(f"{FIRST_SHIFT / max(size, FIRST_SHIFT):.1g}")

    @property
    def warning(self) -> str:
        """A sentence about too few held-out texts, or about sides that are too similar, or ""."""
        if self.held_out < FEWEST:
            return (
                f"the table rests on {counted(self.held_out, 'held-out text')}: give more texts, "
                f"so that at least {FEWEST} are held out"
            )
        best = max(line.auc for line in self.lines if line.chosen)
        if best < LEAST:
            return (
                f"the chosen layers hardly tell the two sides apart: their best AUC-ROC is "
                f"{best:.3f}; make the prompts more extreme, or the texts more different"
            )
        return ""

    def draw(self, path: Path) -> None:
        """Plot the effect size of each layer. Raises RequestError if matplotlib is missing."""
        figure = picture(5.2, 3.4)
        axes = figure.subplots()
        colors = [OURS if line.chosen else THEIRS for line in self.lines]
        effects = [line.effect for line in self.lines]
        axes.bar([line.layer for line in self.lines], effects, color=colors)
        axes.set_xlabel("decoder layer (dark: in the vector)")
        axes.set_ylabel("effect size on held-out texts")
        figure.savefig(path, dpi=110)


@dataclass(frozen=True, slots=True, repr=False)
class TrainedVector:
    """A control vector in memory: a direction for each layer, from `negative` to `positive`.

    `layers` are the numbers of the decoder layers, counted from 0. A direction is the difference of
    the mean hidden states after its layer, in their own unit: strength 1 adds the whole difference
    at every layer of the vector. `model_hint` is the type of the model.
    """

    report: VectorReport
    model_hint: str
    directions: Mapping[int, Tensor]

    @property
    def layers(self) -> tuple[int, ...]:
        """The decoder layers after which a direction is added."""
        return tuple(self.directions)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the vector as a GGUF file, which llama.cpp and repeng read.

        Raises RequestError if the name does not end in .gguf, and for an existing file that is not
        a control vector, such as the model's.
        """
        is_another_vector(Path(path))
        try:
            control_vectors.write(Path(path), self.directions, self.model_hint)
        except OSError as error:
            raise RequestError(f"cannot write {str(path)!r}: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<TrainedVector of {self.report.settings.model!r}: {self._layers}>"

    def show(
        self, out: str | PathLike[str] | None = None, plot: str | PathLike[str] | None = None
    ) -> None:
        """Print the figures of all layers, which are chosen, and any warning. Draw `plot`.

        If `out` is the vector's file, also print how a term names the file, with the strength to
        try first.
        """
        report, console = self.report, terminal()
        say(
            console,
            [
                f"{report.settings.model}: learned from {counted(report.learned, 'text')}, held "
                f"out {counted(report.held_out, 'text')}, read in {report.seconds:.1f} s",
                "held out, by decoder layer",
            ],
        )
        print_table(console, COLUMNS, [cells(line) for line in report.lines], left=())
        say(console, [f"chosen: {self._layers}", *filter(None, [report.warning])])
        if out is not None:
            strength = report.first_strength
            say(console, [f'in a formula: prompted(vectors={{"{out}": {strength}}})'])
        if plot is not None:
            report.draw(Path(plot))

    @property
    def _layers(self) -> str:
        first, last = self.layers[0], self.layers[-1]
        return f"layer {first}" if first == last else f"layers {first} to {last}"


def is_another_vector(path: Path) -> bool:
    """Return whether a control vector that is written to `path` replaces another control vector.

    Raises RequestError for a file that must not be written: see `TrainedVector.save`.
    """
    if path.suffix.lower() != GGUF:
        raise RequestError(f"the file of a control vector must end in {GGUF}, not {str(path)!r}")
    if not path.is_file():
        return False
    try:
        architecture = read_header(path).metadata.get("general.architecture")
    except ModelError:
        architecture = None
    if architecture != control_vectors.ARCHITECTURE:
        raise RequestError(f"{str(path)!r} exists and is not a control vector; name another file")
    return True


def cells(line: LayerLine) -> tuple[str, ...]:
    """Return a line as texts for a table."""
    figures = (f"{line.auc:.3f}", f"{line.effect:.2f}", f"{line.size:.3f}")
    return (str(line.layer), *figures, "yes" if line.chosen else "")
