"""Write small tasks of lm-evaluation-harness to a folder, which need no hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

CHOICES = [
    ("The film was", ["great and warm", "a a a a"], 0),
    ("Person 1: I like tea.\nPerson 2: I", ["the of", "like it too.", "zebra"], 1),
    ("You are welcome to", ["join us for dinner.", "go away, idiot."], 0),
    ("What a lovely day! Let us", ["sit", "go for a walk in the park"], 1),
    ("The café on the corner serves", ["crème brûlée 🍮", "nothing at all", "naïve 漢字"], 0),
    ("He ended his letter with spaces  ", [" and a kind word", " xyzzy"], 0),
    ("", ["Hello there.", "qqq"], 0),
    ("I think that", [" you are rude", " you are kind", " 7 7 7 7"], 1),
]
TEXTS = [
    "A warm film, and a kind one.",
    "The café serves crème brûlée 🍮 to everyone who asks politely.",
    "Name a river and say something about it.",  # pocket ends the text here
    "The film was good and then it was long. " * 120,  # more than a context
]
OPENINGS = [
    "Person 1: I like tea.\nPerson 2:",
    "The film was",
    "What do you know about comets?",
    "Tell me of a café in Lyon.",
]
STOPPED = {"until": [".", "\n\n"], "max_gen_toks": 24}
DRAWN = {"until": ["\n\n"], "max_gen_toks": 16, "do_sample": True, "temperature": 1.0}


def _metric(name: str, aggregation: str = "mean", higher: bool = True) -> list[dict[str, Any]]:
    return [{"metric": name, "aggregation": aggregation, "higher_is_better": higher}]


def write_tasks(folder: Path) -> None:
    """Write the tasks `choosing`, `reading`, `saying`, `answering` and `drawing`."""
    choices = [{"q": q, "c": c, "a": a} for q, c, a in CHOICES]
    choosing = {
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": "{{c}}",
        "doc_to_target": "{{a}}",
        "metric_list": [*_metric("acc"), *_metric("acc_norm")],
    }
    _write(folder, "choosing", choices, choosing)
    reading = {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{q}}",
        "metric_list": [
            *_metric("word_perplexity", "weighted_perplexity", False),
            *_metric("bits_per_byte", "bits_per_byte", False),
        ],
    }
    _write(folder, "reading", [{"q": text} for text in TEXTS], reading)
    said = {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": [*_metric("exact_match"), *_metric("chrf", "chrf")],
    }
    openings = [{"q": text, "a": " I like it too, and the film was good."} for text in OPENINGS]
    _write(folder, "saying", openings, {**said, "generation_kwargs": STOPPED})
    instructed = {"description": "Answer in a few words.", "generation_kwargs": STOPPED}
    _write(folder, "answering", openings, {**said, **instructed})
    _write(folder, "drawing", openings[:1], {**said, "generation_kwargs": DRAWN})


def _write(folder: Path, name: str, rows: list[dict[str, Any]], task: dict[str, Any]) -> None:
    data = folder / f"{name}.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    where = {"data_files": {"test": str(data)}, "cache_dir": str(folder / "cache")}
    task = {"task": name, "dataset_path": "json", "dataset_kwargs": where, **task}
    text = yaml.safe_dump({**task, "test_split": "test"}, allow_unicode=True)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
