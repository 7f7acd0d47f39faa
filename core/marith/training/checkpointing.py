"""How far a training has come, on disk: kept whole or not at all, and without pickles."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model

from marith.errors import ModelError, RequestError, unreadable
from marith.training.report import REPORT, Report

_KEPT, _UNFINISHED = "step-", "saving"
_WEIGHTS, _OPTIMISER, _PROGRESS = "weights.safetensors", "optimiser.safetensors", "progress.json"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Steps taken, their loss (a moving mean) and their seconds."""

    step: int = 0
    loss: float | None = None
    seconds: float = 0.0


class TrainingFolder:
    """The directory of one training. Its checkpoints are in `training/` until it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "training"

    def check(self, identity: Mapping[str, Any]) -> None:
        """Raise RequestError for a directory with another training in it, or with other things."""
        newest = self._newest()
        if (self.path / REPORT).is_file():
            settings = self._read(self.path / REPORT).get("settings")
        elif newest is not None:
            settings = self._read(newest / _PROGRESS).get("settings")
        elif not self.path.is_dir() or {p.name for p in self.path.iterdir()} <= {"training"}:
            return
        else:
            raise RequestError(f"{str(self.path)!r} is not empty, and what it holds is no training")
        if not isinstance(settings, dict):
            raise RequestError(f"{str(self.path)!r} holds no training that can go on")
        for name, value in identity.items():
            if settings.get(name) != value:
                raise RequestError(self._difference(name, settings.get(name), value))

    def report(self) -> Report | None:
        """The report of a finished training."""
        path = self.path / REPORT
        if not path.is_file():
            return None
        try:
            return Report.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise unreadable(path, error) from None

    def save(
        self, model: Any, optimiser: Any, so_far: TrainingProgress, identity: Mapping[str, Any]
    ) -> None:
        """Keep a checkpoint, and delete the one before it once this is whole."""
        unfinished = self.checkpoints / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_model(model, str(unfinished / _WEIGHTS))
        save_file(_flat(optimiser), unfinished / _OPTIMISER)
        progress = {**asdict(so_far), "settings": dict(identity)}
        (unfinished / _PROGRESS).write_text(json.dumps(progress, indent=1) + "\n", encoding="utf-8")
        name = f"{_KEPT}{so_far.step:08d}"
        os.replace(unfinished, self.checkpoints / name)
        for path in self.checkpoints.glob(f"{_KEPT}*"):
            if path.name != name:
                shutil.rmtree(path)

    def restore(self, model: Any, optimiser: Any) -> TrainingProgress:
        """Put the newest checkpoint into both, and say how far it had come. Raises ModelError."""
        newest = self._newest()
        if newest is None:
            return TrainingProgress()
        try:
            load_model(model, newest / _WEIGHTS, device=str(model.device))
            _restore_flat(optimiser, load_file(newest / _OPTIMISER, device=str(model.device)))
            progress = self._read(newest / _PROGRESS)
            return TrainingProgress(
                int(progress["step"]), progress["loss"], float(progress["seconds"])
            )
        except (OSError, SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
            first = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ModelError(f"the checkpoint {str(newest)!r} cannot be read: {first}") from error

    def clear(self) -> None:
        """Delete the checkpoints of a finished training."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _newest(self) -> Path | None:
        return max(self.checkpoints.glob(f"{_KEPT}*"), default=None)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from None
        return data if isinstance(data, dict) else {}

    def _difference(self, name: str, earlier: Any, value: Any) -> str:
        if name == "data":
            return f"the training in {str(self.path)!r} was of other data than is in this file now"
        other = f"{name} {earlier!r}, not {value!r}"
        return f"the training in {str(self.path)!r} has {other}; name another --out"


def _flat(optimiser: Any) -> dict[str, torch.Tensor]:
    """The state of an optimiser as tensors by name: `3.exp_avg` is of its fourth parameter."""
    return {
        f"{number}.{name}": value.contiguous()
        for number, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore_flat(optimiser: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
