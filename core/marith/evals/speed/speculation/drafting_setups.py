"""How the texts of a formula are drafted and drawn, and what they cost, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from marith.engine.engine import Engine
from marith.evals.speed.rounds import Sample, TokenClock, Variant
from marith.formula.meaning.binding import parse, resolve
from marith.formula.text.term_data import Terms
from marith.request.completion import Stats
from marith.request.plan import Plan
from marith.request.prompt import Message
from marith.request.request import Request, Speculation
from marith.request.sampling import Sampling
from marith.request.stop import Stop

Prompt: TypeAlias = "str | Sequence[Message]"

_WARMING = 2  # texts of the round that does not count


@dataclass(frozen=True, slots=True)
class DraftingSetup:
    """A formula, its names, and how its tokens are drafted and drawn.

    `seeded` texts are the same in every run. `warming` texts are made in the round that warms up;
    what adapts takes more of them. `whole` texts are timed, else what follows the first arrival.
    """

    name: str
    formula: str
    terms: Terms
    speculation: Speculation = None
    temperature: float = 1.0
    seeded: bool = True
    warming: int = _WARMING
    whole: bool = False


@dataclass(slots=True)
class Tally:
    """What many texts cost, added up. Keeps state.

    `drawn` counts all tokens that were drawn, those that end texts included, which took `seconds`
    with their prompts; `later` and `later_seconds` leave out each text's first arrival.
    `evaluated`, `accepted` and `predicted` are sums over the stages of all texts.
    """

    drawn: int = 0
    seconds: float = 0.0
    later: int = 0
    later_seconds: float = 0.0
    passes: int = 0
    calls: int = 0
    evaluated: int = 0
    accepted: int = 0
    predicted: float = 0.0

    def add(self, clock: TokenClock, stats: Stats) -> None:
        """Count one text."""
        (first, first_tokens), last = clock.arrivals[0], clock.arrivals[-1][0]
        drawn = sum(tokens for _, tokens in clock.arrivals)
        self.drawn += drawn
        self.seconds += last
        self.later += drawn - first_tokens
        self.later_seconds += last - first
        self.passes += stats.passes
        self.calls += stats.calls
        for stage in stats.stages:
            self.evaluated += stage.evaluated
            self.accepted += stage.stood
            self.predicted += stage.predicted * stage.evaluated

    def milliseconds(self, whole: bool) -> float:
        """Milliseconds a token, over the whole texts or after their first arrivals if there are."""
        if whole or not self.later:
            return 1e3 * self.seconds / self.drawn
        return 1e3 * self.later_seconds / self.later

    def per_token(self) -> tuple[float, float, float | None, float | None]:
        """Calls, passes, and of the checked drafts the shares predicted and accepted."""
        checked = self.evaluated or None
        return (
            self.calls / self.drawn,
            self.passes / self.drawn,
            checked and self.predicted / checked,
            checked and self.accepted / checked,
        )


def variant(
    engine: Engine,
    setup: DraftingSetup,
    prompts: Callable[[int], Sequence[Prompt]],
    tokens: int,
    total: Tally,
) -> Variant:
    """A setup over `prompts(round)`, one after another; `total` adds up all but round 0.

    The paper's requests come one after another too.
    """

    def run(turn: int) -> Sample:
        tally, texts = Tally(), prompts(turn)
        for i, prompt in enumerate(texts if turn else texts[: setup.warming]):
            seed = turn * len(texts) + i if setup.seeded else None
            tallies = (tally, total) if turn else (tally,)
            _ask(engine, setup, prompt, Sampling(setup.temperature, seed=seed), tokens, tallies)
        return Sample(tally.milliseconds(setup.whole), passes_per_token=tally.passes / tally.drawn)

    return Variant(setup.name, run)


def _ask(
    engine: Engine,
    setup: DraftingSetup,
    prompt: Prompt,
    sampling: Sampling,
    tokens: int,
    tallies: Sequence[Tally],
) -> None:
    request = Request(prompt, setup.formula, setup.terms, sampling, Stop(tokens), setup.speculation)
    clock = TokenClock.start()
    ticket = engine.submit(request)
    for chunk in ticket:
        clock.lap(len(chunk.tokens) + (chunk.finish_reason == "stop"))
    stats = ticket.result().stats
    for tally in tallies:
        tally.add(clock, stats)


def plan_label(plan: Speculation, terms: Terms) -> str:
    """A plan as few words as it has, its terms by their names."""
    if not isinstance(plan, Plan):
        return ""
    names = {str(formula): name for name, formula in resolve(terms).items()}
    drafts = [_named(draft, names) for draft in plan.drafted_by]
    parts = [f"{' → '.join(drafts)}, {plan.length} ahead"] if drafts else []
    parts += [f"{_named(term, names)}: {s}" for term, s in plan.every]
    return ", ".join(parts)


def _named(text: str, names: Mapping[str, str]) -> str:
    return names.get(str(parse(text)), text)
