"""A classifier that was just trained steers a formula."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from support.applications import Report

from marith import Engine, Request, Sampling, Stop
from marith.models import attribute
from marith.training import Settings, train
from tools.pocket.corpus import documents
from tools.pocket.grammar import chats


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
    tmp_path: Path, report: Report
) -> None:
    data = tmp_path / "formality.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in formality(3, 100)), "utf-8")
    settings = Settings("pocket-toxicity", data, tmp_path / "judge", epochs=5, rate=3e-3)
    learned = train(settings)
    draw = random.Random(1)
    prompts = [chats.question(draw) for _ in range(20)]
    terms = {"C": {"formula": f'classifier("{settings.out}", label="formal", candidates=20)'}}
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
