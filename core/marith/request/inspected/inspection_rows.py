"""An inspection as rows, one for each position, and as a table of pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from marith.errors import RequestError
from marith.formula.tree.hidden_texts import distinct

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
    """A row for each position; a term's columns are named by its own name, or else by its text.

    Of names that are equal, as those of both parts of `a + a`, the second is `exact: a (2)`.
    """
    firsts = [term.names[0] if term.names else term.text for term in inspection.terms]
    own = (
        term.text if firsts.count(first) > 1 else first
        for term, first in zip(inspection.terms, firsts, strict=True)
    )
    terms = [*distinct(own)]
    parts = [*distinct(f"{part.kind}: {part.text}" for part in inspection.parts)]
    observations = [*distinct(f"observed: {text}" for text in inspection.observations)]
    for position in inspection.positions:
        row = {name: getattr(position, name) for name in _PLAIN}
        row["bare_likeliest"] = position.bare_likeliest.text
        row["reference"] = position.reference.text
        for text, view in zip(terms, position.terms, strict=True):
            row.update({f"{name}: {text}": getattr(view, name) for name in _OF_TERM})
        for part, contribution in zip(parts, position.contributions, strict=True):
            row[part] = contribution.value
        row.update(zip(observations, position.observations, strict=True))
        yield row


def dataframe_of(inspection: Inspection) -> pandas.DataFrame:
    """The rows as a table of pandas. Raises RequestError where pandas is absent."""
    try:
        import pandas  # an extra, and slow to import
    except ModuleNotFoundError:
        raise RequestError(NO_PANDAS) from None
    return pandas.DataFrame(list(rows_of_positions(inspection)))
