"""Commands that train: `marith train-classifier`."""

from pathlib import Path
from typing import Annotated

import typer

from marith.cli.options import Device
from marith.cli.shared import app, clear_errors

Base = Annotated[
    str,
    typer.Option(help="What is fine-tuned: pocket-toxicity, a directory or a hub id."),
]
Data = Annotated[Path, typer.Option(help="Texts and labels: .csv, .tsv, .jsonl or .parquet.")]
Rate = Annotated[
    float | None, typer.Option(help="AdamW's peak rate; else 1e-5, or 3e-4 for a small base.")
]
MaxLength = Annotated[
    int | None, typer.Option(help="Tokens of a text at most; else the model's context.")
]


@app.command()
def train_classifier(
    base: Base,
    data: Data,
    out: Annotated[Path, typer.Option(help="The directory that the classifier is left in.")],
    text_column: Annotated[str, typer.Option(help="The column of texts.")] = "text",
    label_column: Annotated[str, typer.Option(help="The column of classes.")] = "label",
    epochs: Annotated[int, typer.Option(help="How often each text is read.")] = 5,
    rate: Rate = None,
    batch_size: Annotated[int, typer.Option(help="Texts a step.")] = 32,
    held_out: Annotated[float, typer.Option(help="The share not learned from.")] = 0.1,
    max_length: MaxLength = None,
    balance: Annotated[bool, typer.Option(help="As many texts of each class an epoch.")] = True,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal weights.")] = 0,
    device: Device = None,
) -> None:
    """Fine-tune a classifier that guides: it learns to judge every prefix of a text."""
    with clear_errors():
        from marith.training import Settings, train  # torch

        settings = Settings(
            base, data, out, text_column, label_column, epochs, rate, batch_size, held_out,
            max_length, balance, seed, device,
        )  # fmt: skip
        train(settings).show(out)
