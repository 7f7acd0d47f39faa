"""An inspection as a widget of a notebook: its tokens can be pressed, as on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from marith.errors import RequestError

FOLDER = Path(__file__).parent
PAGE = Path(__file__).parents[2] / "serving" / "page"  # whose strip and card need no server
MODULES = PAGE / "values.js", PAGE / "strip.js", PAGE / "card.js", FOLDER / "widget.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "[^"]+";$', re.MULTILINE)


def joined_module() -> str:
    """Return `MODULES` as the text of one, in which they share one scope: each name is of one."""
    return "\n".join(_IMPORT.sub("", file.read_text(encoding="utf-8")) for file in MODULES)


def shadow_style() -> str:
    """Return the page's style, and the widget's over it, for the shadow root of an element."""
    page, own = PAGE / "style.css", FOLDER / "widget.css"
    return page.read_text(encoding="utf-8").replace(":root", ":host") + own.read_text("utf-8")


class InspectionWidget(anywidget.AnyWidget):
    """The tokens of an inspection, in colours, and the card of the one that is chosen.

    It takes the inspection as the dictionary that `Inspection.as_dict` returns.

    `chosen` is its index among the positions, None for none. It changes where a token is pressed,
    and what is assigned to it is shown; an index that no position has is a RequestError.
    """

    _esm = joined_module()
    _style = traitlets.Unicode(shadow_style()).tag(sync=True)
    _data = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, inspection: dict[str, Any]) -> None:
        super().__init__(_data=inspection)

    @traitlets.validate("chosen")
    def _within(self, proposal: dict[str, Any]) -> int | None:
        index: int | None = proposal["value"]
        count = len(self._data["positions"])
        if index is not None and not 0 <= index < count:
            there = f"from 0 to {count - 1}, or None" if count else "only None: there are no tokens"
            raise RequestError(f"chosen is {index}; it can be {there}")
        return index
