"""What is to be done: which formulas answer which prompts, checked before anything is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from marith.errors import FormulaError, RequestError
from marith.evals.experiment.texts import Key, NamedFormula, PromptRow
from marith.evals.metrics.metric import Metric
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.text.term_data import Terms, terms_as_data
from marith.request.checks import backend_name, by, hold, optional, whole_from
from marith.request.sampling import Sampling
from marith.request.stop import Stop
from marith.scoring.checkpoints.locate import locate


@dataclass(frozen=True, slots=True)
class TextTask:
    """A text that is to be made."""

    line: NamedFormula
    prompt: PromptRow
    sample: int
    seed: int

    @property
    def key(self) -> Key:
        """Which text it will be."""
        return self.line.name, self.prompt.row, self.sample


@dataclass(frozen=True, slots=True)
class Experiment:
    """Every line answers every prompt `samples` times.

    `source` says in words where the prompts are from; `device`, `dtype`, `revision` and
    `backend` are those of `Engine.load`. With `ray` so many actors of a cluster make the texts.
    Raises FormulaError, ModelError or RequestError for what could not be done.
    """

    evaluation: str
    model: str
    lines: tuple[NamedFormula, ...]
    terms: Terms
    prompts: tuple[PromptRow, ...]
    measures: tuple[Metric, ...] = ()
    seed: int = field(default=0, metadata=by(whole_from(0, 2**31)))
    samples: int = field(default=1, metadata=by(whole_from(1, 10_000)))
    temperature: float = 1.0
    stop: Stop = Stop(64)
    source: str = ""
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    backend: str | None = field(default=None, metadata=by(backend_name))
    ray: int | None = field(default=None, metadata=by(optional(whole_from(1))))

    def __post_init__(self) -> None:
        locate(self.model)
        hold(self)
        Sampling(self.temperature)
        check_lines(self.lines, self.terms)

    def tasks(self) -> Iterator[TextTask]:
        """All texts that there will be: line by line, prompt by prompt, sample by sample."""
        for line in self.lines:
            for prompt in self.prompts:
                for sample in range(self.samples):
                    yield TextTask(line, prompt, sample, seed_of(self.seed, prompt.row, sample))

    def settings(self) -> dict[str, Any]:
        """All that the results depend on, as plain data that is compared before a run goes on."""
        prompts = json.dumps([asdict(prompt) for prompt in self.prompts], sort_keys=True)
        return {
            "evaluation": self.evaluation,
            "model": self.model,
            "n": len(self.prompts),
            "seed": self.seed,
            "samples": self.samples,
            "temperature": self.temperature,
            "max_tokens": self.stop.max_tokens,
            "stop": list(self.stop.strings),
            "formulas": {line.name: line.formula for line in self.lines},
            "terms": terms_as_data(self.terms),
            "source": self.source,
            "prompts": hashlib.sha256(prompts.encode()).hexdigest(),
            "measures": {measure.name: measure.described() for measure in self.measures},
            **({"dtype": self.dtype} if self.dtype else {}),
            **({"revision": self.revision} if self.revision else {}),
            **({"backend": self.backend} if self.backend else {}),
        }


def check_lines(lines: tuple[NamedFormula, ...], terms: Terms) -> None:
    """Raise FormulaError for a formula that means nothing, RequestError for equal names."""
    if not lines:
        raise RequestError("an evaluation needs a formula")
    bound, seen = resolve(terms), set[str]()
    for line in lines:
        if not line.name or line.name in seen:
            raise RequestError(f"every formula has a name of its own, not {line.name!r}")
        seen.add(line.name)
        try:
            check(parse(line.formula), bound)
        except FormulaError as error:
            raise FormulaError(f"formula {line.name!r}: {error}") from None


def seed_of(seed: int, row: int, sample: int) -> int:
    """The seed of one text, the same for every formula: they differ by their formulas alone."""
    digest = hashlib.sha256(f"{seed} {row} {sample}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
