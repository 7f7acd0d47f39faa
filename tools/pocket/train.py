"""Make everything under core/marith/pocket/weights: `python -m tools.pocket.train`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import transformers
import typer

from marith.scoring.weights.locate import WEIGHTS
from tools.pocket import (
    adapters,
    copying,
    language_model,
    model_card,
    prefix_classifiers,
    tokenizer,
)
from tools.pocket.language_model import Course

STAGES = ("tokenizer", "pocket", "more", "cool", "draft", "classifiers", "adapters", "card")


def main(
    out: Annotated[Path, typer.Option(help="Where the models go.")] = WEIGHTS,
    only: Annotated[str, typer.Option(help="Stages, by comma.")] = ",".join(STAGES),
    tokens: Annotated[int, typer.Option(help="Tokens that pocket sees.")] = 12_924_695,
    horizon: Annotated[int, typer.Option(help="Tokens over which the rate falls.")] = 18_000_000,
    more_tokens: Annotated[int, typer.Option(help="Tokens of a further course.")] = 3_700_000,
    more_horizon: Annotated[int, typer.Option(help="Over which its rate falls.")] = 9_600_000,
    more_rate: Annotated[float, typer.Option(help="Its peak rate.")] = 2e-3,
    cool_tokens: Annotated[int, typer.Option(help="Tokens of the last course.")] = 1_800_000,
    cool_rate: Annotated[float, typer.Option(help="Its peak rate, which ends at nothing.")] = 8e-4,
    draft_tokens: Annotated[int, typer.Option(help="Tokens that pocket-draft sees.")] = 5_000_000,
    step: Annotated[int, typer.Option(help="Tokens per optimiser step.")] = 6144,
    batch: Annotated[int, typer.Option(help="Tokens per forward pass.")] = 2048,
    rate: Annotated[float, typer.Option(help="Peak learning rate of pocket.")] = 3e-3,
    muon: Annotated[bool, typer.Option(help="Muon for matrices, or AdamW for all.")] = True,
    classifier_steps: Annotated[int, typer.Option()] = prefix_classifiers.STEPS,
    adapter_steps: Annotated[int, typer.Option()] = adapters.STEPS,
    held_out: Annotated[int, typer.Option(help="Documents that perplexity is over.")] = 1500,
    seed: Annotated[int, typer.Option(help="Equal seeds make equal runs.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads; 0: torch's own choice.")] = 0,
) -> None:
    """Train tokenizer, models, classifiers and adapters, and write the model card."""
    stages = plan_of(only)
    prepare(out, threads)
    course = Course(tokens, horizon, step, batch, rate, seed, muon, held_out)
    courses = {
        "pocket": course,
        "more": further(course, more_tokens, more_horizon, more_rate, 2),
        "cool": further(course, cool_tokens, cool_tokens, cool_rate, 1),
        "draft": further(course, draft_tokens, draft_tokens, rate, 0),
    }
    if "tokenizer" in stages:
        tokenizer.save(tokenizer.train(seed), out / "pocket")
    languages(out, {stage: one for stage, one in courses.items() if stage in stages})
    if "classifiers" in stages:
        classifiers(out, seed, classifier_steps)
    if "adapters" in stages:
        low_rank(out, seed, adapter_steps)
    finish(out, "card" in stages)


def prepare(out: Path, threads: int) -> None:
    """Make the folder `out`, and set the number of torch's threads. 0 keeps torch's choice."""
    if threads:
        torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()
    out.mkdir(parents=True, exist_ok=True)


def plan_of(text: str) -> list[str]:
    """Return the stages named in `text`, separated by commas."""
    stages = text.split(",")
    for stage in stages:
        if stage not in STAGES:
            raise typer.BadParameter(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    return stages


def further(course: Course, tokens: int, horizon: int, rate: float, seeds: int) -> Course:
    """Return a course like `course` over other texts: with a later seed, at another rate."""
    return replace(course, tokens=tokens, horizon=horizon, rate=rate, seed=course.seed + seeds)


def languages(out: Path, courses: Mapping[str, Course]) -> None:
    """Take the courses by stage: those of pocket one after the other, and the draft's."""
    for stage, course in courses.items():
        if stage == "more":
            note(out, "copying", "before", copying.measure(out / "pocket"))
        if stage == "draft":
            language(out, "pocket-draft", course)
            continue
        language(out, "pocket", course, begin=None if stage == "pocket" else out / "pocket")
        note(out, "copying", "pocket", copying.measure(out / "pocket"))


def language(out: Path, name: str, course: Course, begin: Path | None = None) -> None:
    """Train one language model, from random weights or further, and save its figures."""
    reader = tokenizer.load(out / "pocket")
    figures = language_model.train(name, reader, course, out / name, begin)
    print(figures)
    noted = asdict(figures)
    before = figures_of(out).get("models", {}).get(name, {}) if begin else {}
    for count in ("tokens", "steps", "seconds"):
        noted[count] += before.get(count, 0)
    noted["courses"] = [*before.get("courses", []), {**noted.pop("course"), "command": command()}]
    note(out, "models", name, noted)


def classifiers(out: Path, seed: int, steps: int) -> None:
    """Train the four classifiers, and save their figures."""
    reader = tokenizer.load(out / "pocket")
    examples = prefix_classifiers.gather(reader, seed, False, prefix_classifiers.PER_CLASS)
    held_out = prefix_classifiers.gather(
        reader, seed + 1, True, prefix_classifiers.HELD_OUT_PER_CLASS
    )
    for name in prefix_classifiers.CLASSES:
        figures = prefix_classifiers.train(
            name, examples[name], held_out[name], seed, out / name, steps
        )
        print(name, figures, flush=True)
        note(out, "classifiers", name, asdict(figures))


def low_rank(out: Path, seed: int, steps: int) -> None:
    """Train the two adapters over the pocket model, and save their figures."""
    reader = tokenizer.load(out / "pocket")
    course = adapters.Course(steps=steps, seed=seed)
    for voice in adapters.TOXIC:
        figures = adapters.train(voice, out / "pocket", reader, course, out / voice)
        print(voice, figures, flush=True)
        note(out, "adapters", voice, asdict(figures))


def figures_of(out: Path) -> dict[str, Any]:
    """Return the figures of the stages so far."""
    path = out / "figures.json"
    figures: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return figures


def note(out: Path, group: str, name: str, figures: Mapping[str, Any]) -> None:
    """Save the figures of one stage, so that stages can run on different days."""
    kept = figures_of(out)
    kept.setdefault(group, {})[name] = {**figures, "command": command()}
    (out / "figures.json").write_text(json.dumps(kept, indent=1) + "\n")


def command() -> str:
    """Return the command with which this run was started."""
    return shlex.join(["python", "-m", "tools.pocket.train", *sys.argv[1:]])


def finish(out: Path, card: bool) -> None:
    """Write the card, print the size of everything, and fail if it is too large for a wheel."""
    if card:
        model_card.write(out, figures_of(out))
    total = model_card.size(out)
    print(f"{out}: {total:,} bytes of {model_card.LIMIT:,}")
    if total > model_card.LIMIT:
        raise SystemExit(f"{out} is {total - model_card.LIMIT:,} bytes too large")


if __name__ == "__main__":
    typer.run(main)
