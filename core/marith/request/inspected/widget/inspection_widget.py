"""An inspection as a widget of a notebook: its tokens can be pressed, as on the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from marith.errors import RequestError
from marith.request.inspected.widget.page_parts import joined_module, shadow_style

if TYPE_CHECKING:
    from marith.request.inspected.inspection import Inspection

FOLDER = Path(__file__).parent


class InspectionWidget(anywidget.AnyWidget):
    """The tokens of an inspection, in colours, and the card of the one that is chosen.

    `chosen` is its index among the positions, None for none. It changes where a token is pressed,
    and what is assigned to it is shown; an index that no position has is a RequestError.
    """

    _esm = joined_module(FOLDER / "widget.js")
    _style = traitlets.Unicode(shadow_style(FOLDER / "widget.css")).tag(sync=True)
    _data = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        super().__init__(_data=inspection.as_dict())

    @traitlets.validate("chosen")
    def _within(self, proposal: dict[str, Any]) -> int | None:
        index: int | None = proposal["value"]
        count = len(self.inspection.positions)
        if index is not None and not 0 <= index < count:
            there = f"from 0 to {count - 1}, or None" if count else "only None: there are no tokens"
            raise RequestError(f"chosen is {index}; it can be {there}")
        return index
