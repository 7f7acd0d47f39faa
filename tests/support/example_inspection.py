"""An inspection of one position, written by hand."""

from __future__ import annotations

from marith import Inspection
from marith.inspection.inspected_position import (
    Contribution,
    InspectedPart,
    InspectedPosition,
    InspectedTerm,
    LikelyToken,
    PushedToken,
    TermView,
    VectorPush,
)


def inspection(text: str = " kind") -> Inspection:
    likely = (LikelyToken(7, text, -0.5), LikelyToken(8, " cruel", None))
    vectors = VectorPush(1.25, (PushedToken(7, text, 1.25),), (PushedToken(8, " cruel", None),))
    view = TermView(-0.5, 1, 2.0, 0.25, None, (-0.5, None), (1, None), likely, vectors)
    position = InspectedPosition(
        0, 7, text, -0.5, 1, 0.75, 1.0, likely, -3.0, 4, likely[1], (-3.0, -0.25), True,
        likely[1], None, (view,), (Contribution(1.5, (1.5, None)),), (2.0,), None,
    )  # fmt: skip
    terms = (InspectedTerm('prompted("Be kind.")', ("k",), "model"),)
    parts = (InspectedPart('2*prompted("Be kind.")', "exact", 0),)
    return Inspection("2*k - M", text, 2, terms, parts, ("position()",), (position,))
