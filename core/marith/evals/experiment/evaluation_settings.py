"""The settings of every evaluation: model, prompts, formulas, sampling, and a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from marith.errors import RequestError
from marith.evals.experiment.prompt_rows import DEFAULT_COUNT, choose, of_pocket, read
from marith.evals.experiment.texts import NamedFormula
from marith.formula.meaning import binding
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Prompted
from marith.request.checks import backend_name, by, hold, optional, whole_from
from marith.request.sampling import Sampling
from marith.scoring.checkpoints.locate import locate

POCKET = "pocket"
MESSAGE = "{message}"  # where a frame has the prompt
PLAIN = Prompted(template="plain")  # prompts as they are, also where there is a chat template


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """An evaluation of formulas over `model`.

    Prompts are `n` rows of `data`: of its `column`, where the columns named by `where` have these
    values; without `data` they are pocket's own. Without `formulas` the paper's are taken. `terms`
    are added to the evaluation's own. All is kept in `out`. `device`, `dtype`,
    `revision` and `backend` are those of `Engine.load`.
    """

    model: str = POCKET
    data: str | None = None
    column: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    formulas: Sequence[str] = ()
    terms: Terms = field(default_factory=dict)
    n: int | None = field(default=None, metadata=by(optional(whole_from(1))))
    seed: int = field(default=0, metadata=by(whole_from(0, 2**31)))
    out: Path | None = None
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    backend: str | None = field(default=None, metadata=by(backend_name))

    def __post_init__(self) -> None:
        locate(self.model)
        hold(self)
        for option, value in (("column", self.column), ("where", self.where)):
            if self.data is None and value:
                raise RequestError(f"{option} is of data, and there is none: {value!r}")

    @property
    def is_pocket(self) -> bool:
        """Whether the model is the one that ships in the package."""
        return locate(self.model) == locate(POCKET)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSettings(EvaluationSettings):
    """An evaluation that generates texts: each formula answers every prompt `samples` times.

    Texts have up to `max_tokens` tokens, or as many as the evaluation's own.
    """

    samples: int = field(default=1, metadata=by(whole_from(1, 10_000)))
    max_tokens: int | None = field(default=None, metadata=by(optional(whole_from(1))))
    temperature: float = 1.0

    def __post_init__(self) -> None:
        super(GenerationSettings, self).__post_init__()
        Sampling(self.temperature)

    def tokens(self, default: int) -> int:
        """How many a text has at most, where the evaluation's own number is this."""
        return default if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(GenerationSettings):
    """As `GenerationSettings`; with `ray` so many actors of a cluster of Ray make the texts.

    Each has an engine of its own, and the texts are the same. Raises RequestError where Ray is not
    installed.
    """

    ray: int | None = field(default=None, metadata=by(optional(whole_from(1, 10_000))))

    def __post_init__(self) -> None:
        super(ClusterSettings, self).__post_init__()
        if self.ray is not None and find_spec("ray") is None:
            raise RequestError("a cluster needs Ray: pip install 'marith[ray]'")


@dataclass(frozen=True, slots=True)
class SourceTexts:
    """Texts with their rows, where they are from in words, and notes about them."""

    texts: tuple[tuple[int, str], ...]
    source: str
    notes: tuple[str, ...] = ()


def source_texts(
    settings: EvaluationSettings, kind: str, default_count: int = DEFAULT_COUNT
) -> SourceTexts:
    """The rows that are asked for; without data, pocket's texts of the kind `kind`.

    Without `n` they are `default_count`, or all there are. Raises RequestError.
    """
    if settings.data is None:
        texts = of_pocket(kind, settings.n or default_count, settings.seed)
        return SourceTexts(tuple(texts), f"pocket's own {kind}")
    rows = read(settings.data, settings.column, settings.where)
    count = settings.n or min(default_count, len(rows.texts))
    notes = (f"{rows.empty} of the rows have no text and are left out",) if rows.empty else ()
    source = f"{rows.column!r} of {settings.data}"
    return SourceTexts(tuple(choose(rows, count, settings.seed)), source, notes)


def check_frame(frame: str | None) -> None:
    """Raise RequestError for a frame that has no place for the prompt."""
    if frame is not None and MESSAGE not in frame:
        raise RequestError(f"a frame contains {MESSAGE}, and {frame!r} does not")


def names_in(line: NamedFormula) -> set[str]:
    """The names that a line's formula has. Raises FormulaError for what is none."""
    return {*binding.names_in(binding.parse(line.formula))}
