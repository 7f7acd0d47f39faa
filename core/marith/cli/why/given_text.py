"""Inspects a text that is there already, by the options of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import marith

if TYPE_CHECKING:
    from marith import Inspection, Options


def inspection_of(
    options: Options,
    messages: Sequence[Mapping[str, str]],
    continuation: str | Sequence[int],
    top: int,
) -> Inspection:
    """The inspection of an answer by the formula of the options. Raises MarithError."""
    request = options.request([*messages])
    return marith.inspect(
        options.engine(),
        request.prompt,
        continuation,
        request.formula,
        request.terms,
        top=top,
        timeout=request.timeout,
        template_options=request.template_options,
        cache_salt=request.cache_salt,
    )
