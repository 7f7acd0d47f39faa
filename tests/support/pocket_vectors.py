"""Control vectors of `pocket`, with random directions."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from marith.models import locate
from marith.scoring.weights.control_vectors import write


def write_vector(path: Path, seed: int = 2) -> Path:
    """Write a vector of two layers in the middle of the model."""
    config = json.loads((Path(locate("pocket")) / "config.json").read_text())
    draw = torch.Generator().manual_seed(seed)
    directions = {n: torch.randn(config["hidden_size"], generator=draw) for n in (2, 3)}
    write(path, directions, config["model_type"])
    return path
