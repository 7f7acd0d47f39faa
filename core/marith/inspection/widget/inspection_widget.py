"""An inspection as a notebook widget. Its tokens can be pressed, as on the server's page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from marith.errors import RequestError

FOLDER = Path(__file__).parent
# The strip and the card of the server's page need no server.
PAGE = Path(__file__).parents[2] / "serving" / "page"
MODULES = PAGE / "values.js", PAGE / "strip.js", PAGE / "card.js", FOLDER / "widget.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "[^"]+";$', re.MULTILINE)


def joined_module() -> str:
    """Return the text of `MODULES` as one module. They share one scope, so no name may repeat."""
    return "\n".join(_IMPORT.sub("", file.read_text(encoding="utf-8")) for file in MODULES)


def shadow_style() -> str:
    """Return the page's style, followed by the widget's, for the shadow root of an element."""
    page, own = PAGE / "style.css", FOLDER / "widget.css"
    return page.read_text(encoding="utf-8").replace(":root", ":host") + own.read_text("utf-8")


class InspectionWidget(anywidget.AnyWidget):
    """The coloured tokens of an inspection, and the card of the chosen token.

    `inspection` is the dictionary that `Inspection.as_dict` returns. `chosen` is the index of the
    chosen position, or None. Pressing a token sets it, and setting it shows the card. Raises
    RequestError for an invalid index.
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
