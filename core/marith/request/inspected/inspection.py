"""Why each token of a text is there: log-probabilities of the formula and its terms, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from marith.errors import RequestError
from marith.formula.tree.hidden_texts import renamed, unquoted
from marith.request.inspected.inspected_position import InspectedPosition
from marith.request.inspected.inspection_html import inspection_html
from marith.request.inspected.inspection_rows import dataframe_of

if TYPE_CHECKING:
    import pandas
    from pydantic import TypeAdapter

    from marith.request.inspected.widget.inspection_widget import InspectionWidget

NO_WIDGET = (
    "widget needs anywidget: pip install 'marith[notebook]'; without it a notebook shows the "
    "inspection itself"
)
PartKind: TypeAlias = Literal["exact", "leave_one_out"]
TermKind: TypeAlias = Literal["model", "n-gram", "uniform", "classifier", "other"]


@dataclass(frozen=True, slots=True)
class InspectedTerm:
    """A term of the formula: its text, the names that stand for it, and what computes it.

    A "classifier" has log-ratios, log C(x₁..x_k) − log C(x₁..x_{k−1}) and 0 outside its candidates,
    where other terms have log-probabilities; it has no rank, entropy or divergence.
    """

    text: str
    names: tuple[str, ...]
    kind: TermKind


@dataclass(frozen=True, slots=True)
class InspectedPart:
    """What a contribution is of: `exact` parts are summands of the score, `leave_one_out` terms.

    The formula is P = softmax(S / W), with the score S = Σ sᵢ of the flattened sum and its weight
    W (theorem 1 of the paper). The part i contributes sᵢ(t)/W(t) − sᵢ(r)/W(r) to the log-odds of
    the token t against the reference r, which is (sᵢ(t) − sᵢ(r)) / W unless the weight differs from
    token to token, as only that of an application's own node can. These contributions add up to
    log P(t) − log P(r), wherever both tokens can follow. A summand is a term times its
    factor, or a union, an intersection, a condition and so on as a whole.

    A term within such a part, within a cut or within a factor, also a classifier but not `M`, is
    left out in addition: its contribution is how much smaller the log-odds are where its
    distribution is replaced by that of the bare model, or a classifier's guidance by 0. These do
    not add up. The candidates of classifiers, and what is known of the text so far, stay as they
    were.

    `text` is the part as formula text; `term` is its index in `Inspection.terms`, None for a part
    that is no single term.
    """

    text: str
    kind: PartKind
    term: int | None


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
        return dataframe_of(self)

    def widget(self) -> InspectionWidget:
        """The text in a notebook, each token of which can be pressed to see its card.

        Tokens and card are those of the page of `marith serve`; no server is asked. The index of
        the token whose card is shown is the widget's `chosen`. Raises RequestError where anywidget
        is absent.
        """
        try:
            from marith.request.inspected.widget.inspection_widget import InspectionWidget
        except ModuleNotFoundError as error:
            if error.name != "anywidget":
                raise
            raise RequestError(NO_WIDGET) from None
        return InspectionWidget(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count, flipped = len(self.positions), len(self.flipped)
        tokens = "1 token" if count == 1 else f"{count} tokens"
        return f"<Inspection of {tokens} by {_brief(self.formula)}: {flipped} flipped>"

    def _repr_html_(self) -> str:
        return inspection_html(self)


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


@cache
def _adapter() -> TypeAdapter[Inspection]:
    from pydantic import TypeAdapter  # slow to import

    return TypeAdapter(Inspection)
