"""The door and what comes of it: a trained classifier steers a formula at once."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marith import Engine, Request, Sampling, Stop
from marith.cli import app
from marith.evals.measures import attribute
from marith.training import Settings, train
from tools.pocket.corpus import documents
from tools.pocket.grammar import chats


def cli(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["train-classifier", *arguments])
    return done.exit_code, done.stdout, done.stderr


def formality(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Replies of the pocket corpus, as many formal as informal ones."""
    told = [0, 0]
    for document in documents(seed):
        label = document.labels.get("formality")
        if label is not None and told[label] < count:
            told[label] += 1
            yield {"text": document.reply, "label": ("informal", "formal")[label]}
        if min(told) == count:
            return


def test_a_trained_classifier_raises_the_probability_of_its_label(
    tmp_path: Path, write_rows: Callable[..., Path], report: Callable[[str], None]
) -> None:
    data = write_rows(tmp_path / "formality.jsonl", formality(3, 100))
    settings = Settings("pocket-toxicity", data, tmp_path / "judge", epochs=5, rate=3e-3)
    learned = train(settings)
    draw = random.Random(1)
    prompts = [chats.question(draw) for _ in range(20)]
    terms = {"C": f'classifier("{settings.out}", label="formal", candidates=20)'}
    means = {}
    with Engine.load("pocket") as engine:
        for formula in ("M", "M + 1*C"):
            tickets = [
                engine.submit(Request(prompt, formula, terms, Sampling(seed=40 + i), Stop(16)))
                for i, prompt in enumerate(prompts)
            ]
            texts = [ticket.result(timeout=240).text for ticket in tickets]
            # Judged by a classifier that learned from other texts, under other weights.
            means[formula] = statistics.mean(attribute(texts, "pocket-formality", "formal"))
    told = ", ".join(f"{formula}: {mean:.3f}" for formula, mean in means.items())
    report(f"formality {told}; held out {learned.lines[-1].accuracy:.3f}")
    assert means["M + 1*C"] > means["M"] + 0.05


def test_the_command_trains_prints_its_table_and_draws_its_plot(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    out, plot = tmp_path / "judge", tmp_path / "lengths.png"
    sizes = ("--epochs", "2", "--rate", "3e-3", "--batch-size", "16", "--device", "cpu")
    code, printed, said = cli(
        "--base", gpt2, "--data", str(warmth), "--out", str(out), *sizes, "--plot", str(plot)
    )  # fmt: skip
    assert code == 0
    assert "learned every prefix of 116 texts (cold: 58, warm: 58)" in printed
    assert "│  whole │" in printed
    assert f'in a formula: classifier("{out}", label="warm")' in printed
    assert "training" in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in out.iterdir()} >= {
        "config.json", "model.safetensors", "tokenizer.json", "report.json", "report.csv",
        "report.md",
    }  # fmt: skip
    assert cli("--base", gpt2, "--data", str(warmth), "--out", str(out), *sizes)[1] == printed


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "rate": (("--rate", "0"), "rate is a number above 0, not 0.0"),
    "share": (("--held-out", "1"), "held_out is a number above 0 and below 1, not 1.0"),
    "epochs": (("--epochs", "0"), "epochs is a whole number from 1 to 10000, not 0"),
    "length": (("--max-length", "9999"), "max_length is a whole number from 1 to 1024, not 9999"),
    "columns": (("--label-column", "text"), "two columns, not 'text' twice"),
    "device": (("--device", "abacus"), "this machine has no device 'abacus'"),
    "data": (("--data", "nowhere.csv"), "there is no file 'nowhere.csv'"),
    "base": (("--base", "pocket-nonsense"), "no model in the package is called 'pocket-nonsense'"),
    "column": (("--text-column", "body"), "line 1: there is no column 'body'; there are 'text', "),
    "plot": (("--plot", "x.gif"), "a plot ends in .png, .svg, .pdf, not 'x.gif'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_before_anything_is_loaded(
    case: str, warmth: Path, tmp_path: Path
) -> None:
    given, problem = BAD[case]
    asked = ("--base", "pocket-toxicity", "--data", str(warmth), "--out", str(tmp_path / "out"))
    code, printed, said = cli(*asked, *given)
    assert (code, printed) == (2, "")
    assert problem in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "given"), [("matplotlib", ("--plot", "x.png")), ("pyarrow", ("--data", "a.parquet"))]
)
def test_an_extra_that_is_absent_is_named(
    module: str,
    given: tuple[str, ...],
    warmth: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.parquet").touch()
    monkeypatch.setitem(sys.modules, module, None)  # as where it is not installed
    asked = ("--base", "pocket-toxicity", "--data", str(warmth), "--out", str(tmp_path / "out"))
    code, _, said = cli(*asked, *given)
    assert code == 2
    assert f"needs {module}: pip install 'marith[evals]'" in said
