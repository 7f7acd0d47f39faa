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


def texts(data: Path) -> dict[str, bytes]:
    """Return the texts by their names, such as "news-1". `data` is the folder of JSON lines."""
    kinds = {
        "news": _joined(data / "rtp_random_prompts.jsonl", lambda row: _web_sentence(row)),
        "reviews": _joined(data / "sentence_polarity.jsonl", lambda row: row["text"]),
        "stories": [row["text"] for row in _rows(data / "tinystories_valid.jsonl")[100:103]],
        "docs": [_prose(ROOT / path, word) for path, word in DOCS],
        "code": [_from(ROOT / path, start) for path, start in CODE],
        **json.loads((Path(__file__).parent / "own_texts.json").read_text()),
    }
    return {
        f"{kind}-{number}": _begun(text)
        for kind, each in kinds.items()
        for number, text in enumerate(each, 1)
    }


def _begun(text: str) -> bytes:
    """Return the first `SIZE` bytes of a text, without a part of a character."""
    return text.encode()[:SIZE].decode(errors="ignore").encode()


def _rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _web_sentence(row: dict) -> str:
    return row["prompt"]["text"] + row["continuation"]["text"]


def _joined(path: Path, text_of) -> list[str]:
    """Return three texts of consecutive rows from row 100 on, each long enough."""
    found, text = [], ""
    for row in _rows(path)[100:]:
        text += text_of(row).strip() + "\n"
        if len(text.encode()) >= SIZE:
            found.append(text)
            text = ""
        if len(found) == 3:
            break
    return found


def _prose(path: Path, word: str) -> str:
    """Return the paragraphs of a page, from the first that has a word, without code."""
    parts = [part for part in path.read_text().split("\n\n") if part[:1].isalpha()]
    start = next(i for i, part in enumerate(parts) if word in part and len(part) > 150)
    return "\n\n".join(parts[start:])


def _from(path: Path, start: str) -> str:
    text = path.read_text()
    return text[text.index(start) :]
