"""Why each token of a text is there: log-probabilities of the formula and its terms, as data."""

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
    """Why each token of a text is there.

    All logarithms are natural. What would be infinite is None: the log-probability of a token that
    cannot follow, and what depends on it. A log-probability is float32 as the engine computes it;
    contributions are float64, from the float32 log-probabilities of the terms.

    `formula` is the formula as text, `text` that of the tokens; `top` is how many of the likeliest
    tokens each position has. Each position has one entry for each of `terms`, of `parts` and of
    `observations`, in their order; an observation is a number about the text so far from which
    factors are computed, such as the log-probability that a classifier gives to it.
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
        """The positions whose token is the formula's likeliest, and not the bare model's."""
        return tuple(position for position in self.positions if position.flipped)

    @property
    def implausible(self) -> tuple[InspectedPosition, ...]:
        """The positions whose token no term finds a tenth as likely as its likeliest one."""
        return tuple(position for position in self.positions if position.implausible)

    @property
    def runs(self) -> tuple[TokenRun, ...]:
        """The tokens of the text, the tokens of one character together."""
        return tuple(runs_of(self.positions))

    @property
    def summary(self) -> str:
        """At how many positions the formula changed which token is likeliest, as a sentence."""
        return (
            f"{len(self.flipped)} of {len(self.positions)} tokens are the formula's likeliest and "
            "not the bare model's"
        )

    def table(self, every: bool = False) -> list[tuple[str, ...]]:
        """Return a table of texts: its heads, then the flipped positions, or `every` position."""
        return table_of(self.positions if every else self.flipped, self.parts)

    def without_texts(self) -> Inspection:
        """The same for whoever may not read the system prompts of the terms.

        The name of a term stands in place of its text, and "…" in place of a text without a name.
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
        """The same as dictionaries, lists, texts, numbers and None, as `to_json` writes them."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return data

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON, which `json_schema` describes."""
        return _adapter().dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Inspection:
        """The inspection that `to_json` wrote. Raises ValueError for any other text."""
        return _adapter().validate_json(text)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Inspection:
        """The inspection that `as_dict` wrote, as adapters have it in the metadata of an answer.

        Raises ValueError for any other mapping.
        """
        return _adapter().validate_python(data)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of `to_json`."""
        return _adapter().json_schema(mode="serialization")

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each position, with columns for each term, part and observation.

        A term's columns are named by the first name that stands for it, as in `rank: chef`, or else
        by its text. Raises RequestError where pandas is absent, which is in the extra `evals`.
        """
        try:
            import pandas  # an extra, and slow to import
        except ModuleNotFoundError:
            raise RequestError(NO_PANDAS) from None
        return pandas.DataFrame(list(_rows(self)))

    def widget(self) -> InspectionWidget:
        """The text in a notebook, each token of which can be pressed to see its card.

        Tokens and card are those of the page of `marith serve`; no server is asked. The index of
        the token whose card is shown is the widget's `chosen`. Raises RequestError where anywidget
        is absent.
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


@cache
def _adapter() -> TypeAdapter[Inspection]:
    from pydantic import TypeAdapter  # slow to import

    return TypeAdapter(Inspection)
