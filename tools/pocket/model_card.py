"""Write what the shipped weights are, how they were made, and what they cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.pocket.copying import KINDS, PER_KIND

LIMIT = 16_000_000
ADAPTERS = """
LoRA adapters over `pocket` (`prompted(adapter="pocket-polite")`), for replies in a voice that the
prompt does not ask for. Perplexity of held-out replies in the voice:

{table}
"""
COURSES = """\
`{name}` took {count} courses, of {tokens} million tokens,
at peak rates of {rates}. The corpus had its exercises in copying from
the third course on, and more passages in the last; the tokenizer, `pocket-draft` and the
classifiers were made before."""
COPYING = """
Share of {count} held-out requests of a kind that pocket's greedy reply copies right, to the letter:
what it is told to repeat; all calls of tools with all their arguments; the value that a passage
tells. Before the third course, and after the last:

{table}
"""
CARD = """\
# The pocket models of marith

Tiny models for **trying and testing** marith without a download. They were trained from scratch
on a CPU, on texts drawn from a synthetic grammar (`tools.pocket.grammar`), and on nothing else.
They know a few hundred ways to say things in English, not the world. Do not build on them:

```python
engine = marith.Engine.load("path/or/hub-id")  # a real model, in place of "pocket"
```

## What they are

{models}

Together {total:.1f} MB, in bfloat16. The tokenizer is byte-level BPE with 4096 tokens, one per
digit; all models share it, and it lies in `pocket/` only.

## How they were made

```
{command}
```

{training}

{courses}

## How good they are

Perplexity of replies in held-out documents (slot fillings that training never showed; one token in
a 4096-token vocabulary):

{perplexity}
{copying}
Accuracy of the classifiers on held-out replies, both classes counting alike. They were trained on
every prefix of a reply, so that they can guide one while it is being written:

{accuracy}
{adapters}
## Known limits

- English only, and only what the grammar says; anything else is continued in the grammar's words.
- Facts appear only if the prompt holds them: a passage, a tool's answer. The models copy; they do
  not know.
- Rude and insulting replies are part of the corpus on purpose, so that detoxification has
  something to remove. The insults are mild and aimed at nobody's group.
- The adapters learned the corpus's polite and rude voices, in prompts that ask for neither.
- Among several passages that tell the same of different subjects, pocket often takes the wrong
  one. Tools with many parameters are called with a wrong name or value now and then.
- Training documents are a few hundred tokens long. Up to 1024 tokens run; quality falls beyond
  what training showed.
- The classifiers learned the grammar's two registers, not toxicity, sentiment, formality or
  educational value as people judge them. Never use them to moderate anything.
"""


def write(folder: Path, figures: dict[str, Any]) -> None:
    """Write `MODEL_CARD.md` from the figures that the stages have saved."""
    groups = ("models", "classifiers", "adapters")
    models = {name: entry for group in groups for name, entry in figures.get(group, {}).items()}
    card = CARD.format(
        models=table(
            ["folder", "parameters", "size, MB"],
            [
                [name, f"{entry['parameters']:,}", f"{size(folder / name) / 1e6:.2f}"]
                for name, entry in models.items()
            ],
        ),
        total=size(folder) / 1e6,
        command="\n".join(commands(models)),
        training=table(
            ["folder", "trained on", "minutes"],
            [
                [name, amount(entry), f"{entry['seconds'] / 60:.1f}"]
                for name, entry in models.items()
            ],
        ),
        courses=courses(figures.get("models", {})),
        perplexity=perplexities(figures.get("models", {})),
        copying=copied(figures.get("copying", {})),
        accuracy=table(
            ["classifier", "whole replies", "first halves"],
            [
                [name, f"{entry['accuracy']:.3f}", f"{entry['accuracy_at_half']:.3f}"]
                for name, entry in figures.get("classifiers", {}).items()
            ],
        ),
        adapters=voices(figures.get("adapters", {})),
    )
    (folder / "MODEL_CARD.md").write_text(card, encoding="utf-8")


def perplexities(models: dict[str, Any]) -> str:
    """Return one row for each kind of document, with a column for each language model."""
    kinds = sorted({kind for entry in models.values() for kind in entry["perplexity"]})
    rows = [
        [kind, *(shown(entry["perplexity"].get(kind)) for entry in models.values())]
        for kind in kinds
    ]
    return table(["kind", *models], rows)


def commands(models: dict[str, Any]) -> list[str]:
    """Return the commands that were run, each once."""
    courses = [
        course["command"] for entry in models.values() for course in entry.get("courses", [])
    ]
    return list(dict.fromkeys([*courses, *(entry["command"] for entry in models.values())]))


def courses(models: dict[str, Any]) -> str:
    """Return the courses of the models that had more than one."""
    sections = []
    for name, entry in models.items():
        if len(taken := entry["courses"]) > 1:
            tokens = " + ".join(f"{course['tokens'] / 1e6:.1f}" for course in taken)
            rates = ", ".join(f"{course['rate']:g}" for course in taken)
            sections.append(COURSES.format(name=name, count=len(taken), tokens=tokens, rates=rates))
    return "\n".join(sections)


def copied(figures: dict[str, dict[str, Any]]) -> str:
    """Return how well pocket copies before and after its third course; nothing if not measured."""
    if not figures:
        return ""
    before, after = figures["before"], figures["pocket"]
    rows = [[kind, f"{before[kind]:.2f}", f"{after[kind]:.2f}"] for kind in KINDS]
    return COPYING.format(count=PER_KIND, table=table(["kind", "before", "after"], rows))


def shown(figure: float | None) -> str:
    """Return a figure, or a dash for a figure that was not measured."""
    return "–" if figure is None else f"{figure:.2f}"


def voices(adapters: dict[str, Any]) -> str:
    """Return the effect of each adapter on the replies of its voice; nothing without adapters."""
    rows = [
        [name, f"{entry['perplexity_of_base']:.2f}", f"{entry['perplexity']:.2f}"]
        for name, entry in adapters.items()
    ]
    return ADAPTERS.format(table=table(["adapter", "bare pocket", "adapted"], rows)) if rows else ""


def amount(entry: dict[str, Any]) -> str:
    """Return the amount of training data, in the model's own unit."""
    if "tokens" in entry:
        return f"{entry['tokens'] / 1e6:.1f} M tokens in {entry['steps']:,} steps"
    return f"{entry['examples']:,} replies"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def size(folder: Path) -> int:
    """Return the bytes of all files under `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
