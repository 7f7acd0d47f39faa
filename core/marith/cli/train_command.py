"""The commands that train: `marith train-classifier` and `marith train-vector`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from marith import RequestError
from marith.cli.application import app, clear_errors
from marith.cli.files import lines, require_writable
from marith.cli.options import Device, Dtype, Model, Plot, Revision

Base = Annotated[
    str,
    typer.Option(help="The model to fine-tune: pocket-toxicity, a directory or a hub id."),
]
Data = Annotated[Path, typer.Option(help="Texts and labels: .csv, .tsv, .jsonl or .parquet.")]
Rate = Annotated[
    float | None, typer.Option(help="AdamW's peak rate.  [default: 1e-5; 3e-4 for a small base]")
]
MaxLength = Annotated[
    int | None, typer.Option(help="The maximum number of tokens of a text.  [default: the context]")
]
Side = Annotated[
    str | None, typer.Option(metavar="PROMPT", help="A prompt that asks for the manner.")
]
Opposite = Annotated[
    str | None, typer.Option(metavar="PROMPT", help="A prompt that asks for the opposite.")
]
Texts = Annotated[
    Path | None, typer.Option(help="A file of example texts instead of --positive, one a line.")
]
OppositeTexts = Annotated[
    Path | None, typer.Option(help="A file of example texts instead of --negative, one a line.")
]
Continuations = Annotated[
    Path | None,
    typer.Option(
        help="A file of texts to follow the prompts, one a line.  [default: 40 sentences]"
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(metavar="A-B", help="The decoder layers, from 1.  [default: by the measure]"),
]


@app.command()
def train_classifier(
    base: Base,
    data: Data,
    out: Annotated[Path, typer.Option(help="The directory for the classifier.")],
    text_column: Annotated[str, typer.Option(help="The text column.")] = "text",
    label_column: Annotated[str, typer.Option(help="The class column.")] = "label",
    epochs: Annotated[int, typer.Option(help="The number of passes over the data.")] = 5,
    rate: Rate = None,
    batch_size: Annotated[int, typer.Option(help="Texts per step.")] = 32,
    held_out: Annotated[float, typer.Option(help="The share of texts to hold out.")] = 0.1,
    max_length: MaxLength = None,
    balance: Annotated[
        bool, typer.Option(help="Use equally many texts of each class in an epoch.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal weights.")] = 0,
    device: Device = None,
) -> None:
    """Fine-tune a classifier to guide generation: it learns to judge every prefix of a text."""
    with clear_errors():
        from marith.training import Settings, train  # torch

        settings = Settings(
            base, data, out, text_column, label_column, epochs, rate, batch_size, held_out,
            max_length, balance, seed, device,
        )  # fmt: skip
        train(settings).show(out)


@app.command()
def train_vector(
    out: Annotated[Path, typer.Option(help="The GGUF file for the vector.")],
    positive: Side = None,
    negative: Opposite = None,
    positive_texts: Texts = None,
    negative_texts: OppositeTexts = None,
    continuations: Continuations = None,
    layers: Layers = None,
    held_out: Annotated[float, typer.Option(help="The share of texts to hold out.")] = 0.25,
    batch_size: Annotated[int, typer.Option(help="Texts per pass.")] = 16,
    seed: Annotated[int, typer.Option(help="Equal seeds hold out the same texts.")] = 0,
    plot: Plot = None,
    model: Model = "pocket",
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
) -> None:
    """Make a control vector from two opposite prompts, or from two files of example texts."""
    with clear_errors():
        from marith.console import check_plot
        from marith.training import VectorSettings, train_vector  # torch
        from marith.training.trained_vector import is_another_vector

        # Without --continuations, the settings have texts of the package.
        more: Any = {}
        if continuations is not None:
            more["continuations"] = _texts("--continuations", continuations)
        settings = VectorSettings(
            model, _side("positive", positive, positive_texts),
            _side("negative", negative, negative_texts), layers=_layers(layers), held_out=held_out,
            batch_size=batch_size, seed=seed, device=device, dtype=dtype, revision=revision, **more,
        )  # fmt: skip
        check_plot(plot)
        replaces = is_another_vector(out)
        for path in (plot, out):
            require_writable(path)
        vector = train_vector(settings)
        vector.save(out)
        if replaces:
            typer.echo(f"the control vector that was in {str(out)!r} is replaced", err=True)
        vector.show(out, plot)


def _side(name: str, prompt: str | None, texts: Path | None) -> str | list[str]:
    """Return the prompt or the example texts of one side. Raises RequestError for both or none."""
    if prompt is not None and texts is None:
        return prompt
    if texts is not None and prompt is None:
        return _texts(f"--{name}-texts", texts)
    raise RequestError(f"write either --{name} or --{name}-texts")


def _texts(option: str, path: Path) -> list[str]:
    """Return the lines of a file. Raises RequestError for fewer than two."""
    texts = lines(path)
    if len(texts) < 2:
        has = f"{str(path)!r} has {len(texts)}"
        raise RequestError(f"the file of {option} must have at least two lines of text; {has}")
    return texts


def _layers(written: str | None) -> tuple[int, int] | None:
    """Return the first and the last of `--layers`. Raises RequestError."""
    if written is None:
        return None
    first, dash, last = written.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise RequestError(f"--layers is written as 10-21 or 15, not {written!r}")
    return int(first), int(last or first)
