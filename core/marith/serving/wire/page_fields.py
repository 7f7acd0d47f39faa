"""What the page sends beside what other clients do."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, StrictStr


class PageKeyFields(BaseModel):
    """A token of one use, for which the page gets its key: `POST /page/key`."""

    model_config = ConfigDict(extra="forbid")

    token: StrictStr = Field(max_length=100)
