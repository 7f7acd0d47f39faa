"""The command that trains: `marith train-classifier`."""

from pathlib import Path
from typing import Annotated

import typer

from marith.cli.application import app, clear_errors
from marith.cli.options import Device

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
