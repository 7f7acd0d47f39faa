"""Inspections over the wire: how much a request may ask for, and answers that have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from marith import Completion, Inspection
from marith.serving.served_models import ServedModel
from marith.serving.server_settings import Bounds
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import AskedFields, TextFields

OBJECT = ".".join(("marith", "inspection"))  # of OpenAI's field, and no module
TOP = 10  # what `inspect: true` means
AT_ONCE = 8  # positions that are written without letting another thread run


def inspected_top(fields: AskedFields, persona: ServedModel, bounds: Bounds) -> int:
    """How many likeliest tokens are inspected at each position; 0 for no inspection.

    Raises Refusal for more than the bound.
    """
    asked = fields.marith.inspect
    value = persona.options.inspect if asked is None else asked
    top = TOP if value is True else int(value)
    hold_top(top, bounds, "marith.inspect")
    return top


def hold_top(top: int, bounds: Bounds, name: str) -> None:
    """Raises Refusal for a number of likeliest tokens that is none, or too large."""
    if not 0 <= top <= bounds.inspected_top:
        problem = f"{name} is a number of likeliest tokens, at most {bounds.inspected_top}"
        raise Refusal(f"{problem}, not {top}", param=name.partition(".")[0])


def most_inspected(fields: AskedFields, persona: ServedModel, bounds: Bounds) -> int | None:
    """The most tokens of each answer that is inspected; None where none is."""
    top = inspected_top(fields, persona, bounds)
    answers = (fields.n or 1) * (len(fields.prompts) if isinstance(fields, TextFields) else 1)
    return max(1, bounds.inspected // (top * answers)) if top else None


def with_inspections(answer: Mapping[str, Any], completions: Sequence[Completion]) -> bytes:
    """An answer as JSON; its `marith` has the inspection of each completion, if there is one.

    For a thread of its own: it lets others run in between, which `json.dumps` of all does not.
    """
    inspections = [each.inspection for each in completions]
    if not any(inspections):
        return _json(answer).encode()
    begin = _json({**answer, "marith": {}}).removesuffix("{}}")
    note = _json(answer.get("marith", {}))[1:-1]
    listed = ",".join("null" if each is None else inspection_json(each) for each in inspections)
    return f'{begin}{{{note}{"," if note else ""}"inspection":[{listed}]}}}}'.encode()


def inspection_json(inspection: Inspection) -> str:
    """An inspection as JSON, some positions at a time."""
    begin = _json(replace(inspection, positions=()).as_dict()).removesuffix("]}")
    pieces = []
    for start in range(0, len(inspection.positions), AT_ONCE):
        some = replace(inspection, positions=inspection.positions[start : start + AT_ONCE])
        pieces.append(_json(some.as_dict()["positions"])[1:-1])
    return f"{begin}{','.join(pieces)}]}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
