"""Texts of several kinds, which models are unlikely to know by heart."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIZE = 300  # bytes of a text, about

# The first lines of three parts of the documentation, and of three parts of the code.
DOCS = (
    ("docs/how-to/serve.md", "server"),
    ("docs/how-to/vectors.md", "vector"),
    ("docs/how-to/memory.md", "memory"),
)
CODE = (
    ("core/marith/engine/entrypoints.py", "def completions("),
    ("core/marith/decoding/matcher.py", "class Compiled:"),
    ("core/marith/scoring/prompting/tokenizer.py", "def _bare_copy("),
)


def texts() -> dict[str, str]:
    """Return the texts by their names, such as "german-1": nine kinds, in seven languages."""
    kinds = {
        **json.loads((Path(__file__).parent / "own_texts.json").read_text(encoding="utf-8")),
        "docs": [_prose(ROOT / path, word) for path, word in DOCS],
        "code": [_from(ROOT / path, start) for path, start in CODE],
    }
    return {
        f"{kind}-{number}": text.encode()[:SIZE].decode(errors="ignore")
        for kind, each in kinds.items()
        for number, text in enumerate(each, 1)
    }


def _prose(path: Path, word: str) -> str:
    """Return the paragraphs of a page, from the first that has a word, without code."""
    parts = [part for part in path.read_text(encoding="utf-8").split("\n\n") if part[:1].isalpha()]
    start = next(i for i, part in enumerate(parts) if word in part and len(part) > 150)
    return "\n\n".join(parts[start:])


def _from(path: Path, start: str) -> str:
    text = path.read_text(encoding="utf-8")
    return text[text.index(start) :]
