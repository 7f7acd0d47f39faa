"""The paper's two formulas, and in each the factors that vary one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marith.formula.meaning.analysis import weight_of
from marith.formula.meaning.binding import parse
from marith.formula.tree.terms import Classifier, Prompted

SYSTEM_PROMPT_NAMES = ("helpful", "happy", "simple", "sports", "formal")
CLASSIFIER = "C"
_KINDS = {**{name: Prompted() for name in SYSTEM_PROMPT_NAMES}, CLASSIFIER: Classifier(CLASSIFIER)}


def first(happy: float = 1, simple: float = 1, sports: float = 1) -> str:
    """F₁ of the paper, section "Fine-grained Control"."""
    return (
        f"{happy}*happy + {simple}*simple + {sports}*union(helpful, sports) + {1 - sports}*helpful"
    )


def second(formal: float = 1, educational: float = 1, simple: float = 1) -> str:
    """F₂ of the paper, section "Fine-grained Control"."""
    formality = f"{formal}*union(helpful, formal)"
    return f"helpful + {formality} + {educational}*{CLASSIFIER} + {simple}*simple"


@dataclass(frozen=True, slots=True)
class Curve:
    """A factor that varies while the others are 1, and the attribute that it controls.

    The attribute is also asked for by a prompt of its name alone, unless a classifier brings it.
    """

    factor: str
    formula: Callable[..., str]
    argument: str
    attribute: str
    values: tuple[float, ...]
    prompted: bool = True

    @property
    def name(self) -> str:
        """The formula and the factor."""
        return f"{'F₁' if self.formula is first else 'F₂'}, {self.factor}"

    def at(self, value: float) -> str:
        """The formula with this factor, as marith writes it."""
        return str(parse(self.formula(**{self.argument: value})))

    def share(self, value: float) -> float:
        """The factor over the weight of the whole formula: the figure's x-axis.

        A classifier brings no weight: what it adds for its distribution it takes for the uniform.
        """
        return value / weight_of(parse(self.at(value)), _KINDS)


LINEAR = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
# The ends are the paper's: its axes reach from −1 to 2/3, to 2 for sports, to 4 for C.
CURVES = (
    Curve("λ₁", first, "happy", "happy", LINEAR),
    Curve("λ₂", first, "simple", "simple", LINEAR),
    Curve("λ₃", first, "sports", "sports", (-1.5, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
    Curve("λ₄", second, "formal", "formal", LINEAR),
    Curve(
        "λ₅",
        second,
        "educational",
        "educational",
        (-3.0, -1.5, 0.0, 1.0, 3.0, 6.0, 9.0, 12.0),
        prompted=False,
    ),
    Curve("λ₆", second, "simple", "simple", LINEAR),
)
