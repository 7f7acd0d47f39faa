"""Steps at fixed shapes, as on a GPU: texts are those alone, and lanes stay in their rows."""

from __future__ import annotations

import pytest
from support.fixed_shapes import engine_at_fixed_shapes, require_texts_alone


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_texts_that_join_end_pause_and_leave_are_those_alone(speculation: str | None) -> None:
    with engine_at_fixed_shapes("cpu") as engine:
        require_texts_alone(engine, 1, speculation)
