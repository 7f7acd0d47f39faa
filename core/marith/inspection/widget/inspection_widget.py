"""An inspection as a widget of a notebook: its tokens can be pressed, as on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from marith.errors import RequestError
from marith.inspection.widget.page_parts import joined_module, shadow_style

FOLDER = Path(__file__).parent


class InspectionWidget(anywidget.AnyWidget):
    """The tokens of an inspection, in colours, and the card of the one that is chosen.

    It takes the inspection as the dictionary that `Inspection.as_dict` returns.

    `chosen` is its index among the positions, None for none. It changes where a token is pressed,
    and what is assigned to it is shown; an index that no position has is a RequestError.
    """

    _esm = joined_module(FOLDER / "widget.js")
    _style = traitlets.Unicode(shadow_style(FOLDER / "widget.css")).tag(sync=True)
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
