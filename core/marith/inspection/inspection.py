"""The data of an inspection: log-probabilities of the formula and its terms for each token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from marith.errors import RequestError
from marith.formula.tree.printing import distinct, renamed, unquoted
from marith.inspection.inspected_position import (
    InspectedPart,
    InspectedPosition,
    InspectedTerm,
    TokenRun,
    runs_of,
)
from marith.inspection.inspection_html import inspection_html
from marith.inspection.inspection_words import table_of

if TYPE_CHECKING:
    import pandas
    from pydantic import TypeAdapter

    from marith.inspection.widget.inspection_widget import InspectionWidget

NO_WIDGET = (
    "widget needs anywidget: pip install 'marith[notebook]'; without it a notebook shows the "
    "inspection itself"
)
NO_PANDAS = (
    "to_pandas needs pandas: pip install 'marith[evals]'; as_dict() and to_json() need nothing"
)
_PLAIN = (
    "place", "token", "text", "logprob", "rank", "entropy", "weight", "bare_logprob", "bare_rank",
    "push", "flipped", "log_odds",
)  # fmt: skip
_OF_TERM = "logprob", "rank", "weight", "entropy", "kl"


@dataclass(frozen=True, slots=True)
class Inspection:
    """The reasons why each token of a text is there.

    Logarithms are natural. An infinite number is None, such as the log-probability of a token that
    cannot follow. Log-probabilities are float32; contributions are float64, computed from float32.

    `top` is the number of likeliest tokens at each position. Each position has one entry for each
    of `terms`, `parts` and `observations`, in order. An observation is a number about the text so
    far, such as a classifier's log-probability, from which factors are computed.
    """

    formula: str
    text: str
    top: int
    terms: tuple[InspectedTerm, ...]
    parts: tuple[InspectedPart, ...]
    observations: tuple[str, ...]
    positions: tuple[InspectedPosition, ...]

    @property
    def flipped(self) -> tuple[InspectedPosition, ...]:
        """The positions whose token is the formula's likeliest, but not the bare model's."""
        return tuple(position for position in self.positions if position.flipped)

    @property
    def implausible(self) -> tuple[InspectedPosition, ...]:
        """The positions that are `implausible`."""
        return tuple(position for position in self.positions if position.implausible)

    @property
    def runs(self) -> tuple[TokenRun, ...]:
        """The tokens of the text. Tokens that together make up one character are joined."""
        return tuple(runs_of(self.positions))

    @property
    def summary(self) -> str:
        """A sentence with the number of flipped positions."""
        return (
            f"{len(self.flipped)} of {len(self.positions)} tokens are the formula's likeliest and "
            "not the bare model's"
        )

    def table(self, every: bool = False) -> list[tuple[str, ...]]:
        """Return a table of texts: the header, then the flipped positions, or `every` position."""
        return table_of(self.positions if every else self.flipped, self.parts, self.terms)

    def without_texts(self) -> Inspection:
        """Return the inspection without system prompts, for readers who may not see them.

        Names replace the texts of terms, and "…" replaces texts without a name.
        """
        names = {term.text: term.names[0] for term in self.terms if term.names}
        return replace(
            self,
            formula=unquoted(self.formula),
            terms=tuple(replace(term, text=renamed(term.text, names)) for term in self.terms),
            parts=tuple(replace(part, text=unquoted(part.text)) for part in self.parts),
            observations=tuple(renamed(text, names) for text in self.observations),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the data of `to_json` as dictionaries, lists, texts, numbers and None."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return data

    def to_json(self, indent: int | None = None) -> str:
        """Return the inspection as JSON that follows `json_schema`."""
        return _adapter().dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Inspection:
        """Return the inspection that `to_json` wrote. Raises ValueError for any other text."""
        return _adapter().validate_json(text)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inspection:
        """Return the inspection that `as_dict` wrote, for example into an answer's metadata.

        Raises ValueError for any other mapping.
        """
        return _adapter().validate_python(data)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of `to_json`."""
        return _adapter().json_schema(mode="serialization")

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each position, with columns for each term, part and observation.

        A term's columns have its first name, as in `rank: chef`, or its text. Raises RequestError
        if pandas, which the extra `evals` installs, is missing.
        """
        try:
            # pandas is an optional dependency, and slow to import.
            import pandas
        except ModuleNotFoundError:
            raise RequestError(NO_PANDAS) from None
        return pandas.DataFrame(list(_rows(self)))

    def widget(self) -> InspectionWidget:
        """Return the text as a notebook widget. Pressing a token shows its card.

        The widget works without a server. Its `chosen` is the index of the shown token. Raises
        RequestError if anywidget is not installed.
        """
        try:
            from marith.inspection.widget.inspection_widget import InspectionWidget
        except ModuleNotFoundError as error:
            if error.name != "anywidget":
                raise
            raise RequestError(NO_WIDGET) from None
        return InspectionWidget(self.as_dict())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count, flipped = len(self.positions), len(self.flipped)
        tokens = "1 token" if count == 1 else f"{count} tokens"
        return f"<Inspection of {tokens} by {_brief(self.formula)}: {flipped} flipped>"

    def _repr_html_(self) -> str:
        return inspection_html(self.runs, self.summary, self.table(every=not self.flipped))


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


def _rows(inspection: Inspection) -> Iterator[dict[str, Any]]:
    """Yield a row for each position.

    A term's columns have its first name, or its text if it has no name or shares its first name
    with another term.

    Of equal names, such as the parts of `a + a`, the second becomes `exact: a (2)`.
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
            if view.vectors is not None:
                row[f"vectors: {text}"] = view.vectors.push
        for part, contribution in zip(parts, position.contributions, strict=True):
            row[part] = contribution.value
        row.update(zip(observations, position.observations, strict=True))
        yield row


@cache
def _adapter() -> TypeAdapter[Inspection]:
    # pydantic is slow to import.
    from pydantic import TypeAdapter

    return TypeAdapter(Inspection)
