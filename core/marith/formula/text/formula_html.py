"""A formula as HTML for notebooks: its text, and its tree as a nested list."""

from __future__ import annotations

from html import escape

from marith.formula.text.explaining import label_of
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import to_text


def formula_html(formula: Formula) -> str:
    """The text, and below it the tree that `explain` draws; all names and texts are escaped."""
    text = f"<code>{escape(to_text(formula))}</code>"
    _, below = label_of(formula)
    return f"{text}<ul>{_item(formula)}</ul>" if below else text


def _item(formula: Formula, factor: str = "") -> str:
    label, below = label_of(formula, factor)
    parts = "".join(_item(part, share) for share, part in below)
    return f"<li>{escape(label)}{f'<ul>{parts}</ul>' if parts else ''}</li>"
