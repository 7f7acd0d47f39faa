"""Inspections over the wire: how much a request may ask for, and answers that have them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from marith import Completion, Inspection
from marith.serving.served_models import ServedModel
from marith.serving.server_settings import Bounds
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import AskedFields, TextFields

OBJECT = ".".join(("marith", "inspection"))  # of OpenAI's field, and no module
TOP = 10  # what `inspect: true` means
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


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
    """Return an answer as JSON; its `marith` has the inspection of each completion, if any has one.

    An inspection may take megabytes, so this is for a thread.
    """
    inspections = [each.inspection for each in completions]
    if not any(inspections):
        return _json(answer).encode()
    begin = _json({**answer, "marith": {}}).removesuffix("{}}")
    note = _json(answer.get("marith", {}))[1:-1]
    listed = ",".join("null" if each is None else inspection_json(each) for each in inspections)
    return f'{begin}{{{note}{"," if note else ""}"inspection":[{listed}]}}}}'.encode()


def inspection_json(inspection: Inspection) -> str:
    """Return an inspection as JSON in ASCII, by pydantic: quicker than by Python's own writer."""
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], inspection.to_json())


def _json(value: Any) -> str:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
