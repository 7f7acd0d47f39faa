"""An inspection as rows, one for each position, and as a table of pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from marith.errors import RequestError

if TYPE_CHECKING:
    import pandas

    from marith.request.inspected.inspection import Inspection

NO_PANDAS = (
    "to_pandas needs pandas: pip install 'marith[evals]'; as_dict() and to_json() need nothing"
)
_PLAIN = (
    "place", "token", "text", "logprob", "rank", "entropy", "weight", "bare_logprob", "bare_rank",
    "push", "flipped", "log_odds",
)  # fmt: skip
_OF_TERM = "logprob", "rank", "weight", "entropy", "kl"


def rows_of_positions(inspection: Inspection) -> Iterator[dict[str, Any]]:
    """A row for each position; a term's column is named as in `rank: prompted("Be kind.")`."""
    for position in inspection.positions:
        row = {name: getattr(position, name) for name in _PLAIN}
        row["bare_likeliest"] = position.bare_likeliest.text
        row["reference"] = position.reference.text
        for term, view in zip(inspection.terms, position.terms, strict=True):
            row.update({f"{name}: {term.text}": getattr(view, name) for name in _OF_TERM})
        for part, contribution in zip(inspection.parts, position.contributions, strict=True):
            row[f"{part.kind}: {part.text}"] = contribution.value
        for text, value in zip(inspection.observations, position.observations, strict=True):
            row[f"observed: {text}"] = value
        yield row


def dataframe_of(inspection: Inspection) -> pandas.DataFrame:
    """The rows as a table of pandas. Raises RequestError where pandas is absent."""
    try:
        import pandas  # an extra, and slow to import
    except ModuleNotFoundError:
        raise RequestError(NO_PANDAS) from None
    return pandas.DataFrame(list(rows_of_positions(inspection)))
