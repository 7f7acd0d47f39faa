"""What the page sends beside what other clients do."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from marith.serving.wire.wire_fields import KnownFields


class PageKeyFields(BaseModel):
    """A token of one use, for which the page gets its key: `POST /page/key`."""

    model_config = ConfigDict(extra="forbid")

    token: StrictStr = Field(max_length=100)


class ExplainFields(KnownFields):
    """A formula to be explained, or a model's own: `POST /v1/explain`."""

    formula: StrictStr | None = None
    terms: dict[StrictStr, StrictStr] | None = None
