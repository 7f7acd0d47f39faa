"""Choose draft lengths under speculation="auto", by the cost of passes and recent acceptance.

Before a round, each text has a possible draft: the tokens that a proposer expects next, or the
tokens that its own models may draft. `lengths` shortens the drafts so that the round has the
highest rate, in tokens per second. After a round without a draft, a text is not considered for some
rounds.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, mul
from statistics import median_low
from weakref import ref

from marith.request.plan import MOST
from marith.speculation.drafts import Drafts
from marith.speculation.window import MODEL, DraftWindow

# Tokens are drafted only if drafts raise the rate by at least this share, because choosing drafts
# takes time too.
MARGIN = 0.08
# Once every `EVERY` choices, each text drafts one token more than was chosen, so that acceptance is
# measured again.
EVERY = 64
# If a pass has more rows than any measured pass, but at most `HOPED` times as many as the largest
# measured pass, it is assumed to cost as much as that pass.
HOPED = 4
# The most time that choosing may take while nothing is drafted, as a share of the rounds' time.
SHARE = 0.01
# After a round without a draft, a text is not considered for some rounds. The controller sets the
# longest such pause to `SHORT` rounds, to `LONG` rounds, or to a number between them.
SHORT, LONG = 3, 64

# The initial sum and weight of the overlaps, as if four overlaps of 0.5 each had been measured. An
# overlap is the probability that a drafted token is accepted.
_PRIOR = 2.0, 4.0
# Each new overlap multiplies the weight of all earlier ones by this number, so about the latest 200
# overlaps count.
_KEPT = 1 - 1 / 200
_MOST_AVERAGES = 4096
# The number of latest passes that are kept for each number of rows. Their lower median is the cost.
_PASSES = 9


class PassTimes:
    """The seconds of a pass, by its number of rows. Keeps the latest passes for each number.

    Above 16, a number of rows is rounded up to one of eight evenly spaced values between a power of
    two and the next: 18, 20, …, 32, then 36, 40, …, 64. The cost of a number of rows is the lower
    median of its passes, because a disturbance makes a pass longer. If a larger number of rows has
    a lower median, the smaller number gets this lower cost too.
    """

    def __init__(self) -> None:
        self._passes: dict[int, deque[float]] = {}
        self._rows: list[int] = []
        self._seconds: list[float] = []

    def note(self, rows: int, seconds: float) -> None:
        """Add a pass of `rows` rows that took `seconds`."""
        self._passes.setdefault(_rounded(rows), deque(maxlen=_PASSES)).append(seconds)
        self._rows = []

    def cost(self, rows: int) -> float | None:
        """Return the seconds of a pass, or None if no pass of at most `rows` rows was noted.

        Between two noted numbers of rows, the cost is linear. From the largest noted number up to
        `HOPED` times this number, the cost is assumed to stay the same. Above that limit, the cost
        grows in proportion to the rows.
        """
        if not self._rows:
            self._rows = sorted(self._passes)
            medians = [median_low(self._passes[number]) for number in reversed(self._rows)]
            self._seconds = [*accumulate(medians, min)][::-1]
        known, seconds, rows = self._rows, self._seconds, _rounded(rows)
        if not known or rows < known[0]:
            return None
        right = bisect_left(known, rows)
        if right == len(known):
            return seconds[-1] * max(1.0, rows / (HOPED * known[-1]))
        if known[right] == rows:
            return seconds[right]
        share = (rows - known[right - 1]) / (known[right] - known[right - 1])
        return seconds[right - 1] + share * (seconds[right] - seconds[right - 1])


def _rounded(rows: int) -> int:
    step = 1 << max(0, rows.bit_length() - 4)
    return -(-rows // step) * step


@dataclass(frozen=True, slots=True)
class Draft:
    """A possible draft of a text.

    `chances` has, for each token, the chance that the token and all tokens before it are accepted.
    Each token adds `rows` rows to the pass that verifies.

    If models draft, `seconds` is the time of one pass of these models, which adds one token to the
    draft of every text whose models draft. If a proposer drafts, `seconds` is 0, because the
    proposer has already given the `tokens` and the source of each.
    """

    chances: Sequence[float]
    rows: int
    seconds: float = 0.0
    tokens: Sequence[int] = ()
    sources: Sequence[Hashable] = ()

    @property
    def gain(self) -> float:
        """The expected number of accepted tokens."""
        return sum(self.chances)


def lengths(
    drafts: Sequence[Draft], rows: int, made: float, cost: Callable[[int], float | None]
) -> tuple[float, list[int]]:
    """Return the highest rate that a round can reach, and the draft lengths that reach it.

    The rate is in tokens per second. Without drafts the round has `rows` rows and makes `made`
    tokens. The tokens of all drafts are sorted by their chance per row, highest first. The first n
    tokens of this order are drafted, for the n that gives the highest rate. A longer draft may be
    better even if one more token is not, because the cost rises in steps. If drafts would raise the
    rate by less than `MARGIN`, nothing is drafted.
    """
    order = [
        (-chance / draft.rows, index, depth, chance)
        for index, draft in enumerate(drafts)
        for depth, chance in enumerate(draft.chances, 1)
    ]
    # The chances within a draft never rise, so its tokens stay in their order.
    order.sort()
    none = best = made / (cost(rows) or math.inf)
    all_made = made + sum(draft.gain for draft in drafts)
    taken = deepest = 0
    drafting = 0.0
    for count, (_, index, depth, chance) in enumerate(order, 1):
        draft = drafts[index]
        made, rows = made + chance, rows + draft.rows
        # One pass of the models drafts the next token of every text, so drafting takes as many
        # passes as the longest draft has tokens.
        if draft.seconds and depth > deepest:
            deepest, drafting = depth, drafting + draft.seconds
        seconds = (cost(rows) or math.inf) + drafting
        if made / seconds > best:
            taken, best = count, made / seconds
        # Even if a round of `seconds` made `all_made` tokens, its rate would not exceed `best`.
        # More drafted tokens never make the round shorter.
        elif all_made / seconds <= best:
            break
    if best < (1 + MARGIN) * none:
        return none, [0] * len(drafts)
    chosen = Counter(index for _, index, *_ in order[:taken])
    return best, [chosen[index] for index in range(len(drafts))]


class Controller:
    """Chooses the lengths of drafts. Changes the cost of a text, never its distribution.

    Keeps the state of one engine: the cost of passes for each set of scorers, the acceptance of
    drafts for each formula and source, and the time that choosing takes. `times` makes an empty
    record of passes.
    """

    def __init__(self, times: Callable[[], PassTimes] = PassTimes) -> None:
        self._new_times = times
        self._times: dict[frozenset[ref[object]], PassTimes] = {}
        # This maps a formula and a source to the sum and the weight of the overlaps. The entry that
        # was updated last is at the end.
        self._stood: dict[Hashable, tuple[float, float]] = {}
        self._choices = 0
        self._seconds = 0.0  # moving average of the time that choosing takes for one text
        self._longest = SHORT

    def plan(
        self, texts: Sequence[Drafts], scorers: Collection[object], rows: int, made: int
    ) -> None:
        """Choose the draft length of each text, and append the tokens that a proposer has given.

        Without drafts, the next pass of `scorers` has `rows` rows, and makes `made` tokens.
        """
        started = time.perf_counter()
        cost = self.times_of(scorers).cost
        seconds = cost(rows)
        # While the cost of a round without drafts is unknown, nothing is drafted, so that this
        # round measures the cost.
        if seconds is None:
            for text in texts:
                text.window.draft(0)
            return
        self._choices += 1
        is_trial = self._choices % EVERY == 0
        drafts = [self._proposed(text) for text in texts]
        rate, chosen = lengths(drafts, rows, made, cost)
        # Drafts of models need passes of their own, so rounds with and without them are compared.
        if drawing := [text for text in texts if text.window.models]:
            drawn = {text: self._drawn(text, len(drawing)) for text in drawing}
            choices = [
                (draft, drawn.get(text, draft)) for text, draft in zip(texts, drafts, strict=True)
            ]
            mixed = [max(choice, key=attrgetter("gain")) for choice in choices]
            mixed_rate, mixed_chosen = lengths(mixed, rows, made, cost)
            if is_trial or mixed_rate > rate:
                drafts, chosen = mixed, mixed_chosen
        for text, draft, length in zip(texts, drafts, chosen, strict=True):
            count = min(length + is_trial, len(draft.chances))
            text.window.draft(count, by_models=count > 0 and not draft.tokens)
            text.window.propose(draft.tokens[:count], draft.sources[:count])
            # Choosing takes time, so a text that gains nothing by drafts is considered ever less
            # often.
            text.rounds = 0 if length else min(2 * text.rounds + 1, self._longest)
            text.left = 0 if count else text.rounds
        each = (time.perf_counter() - started) / len(texts)
        self._seconds = 0.9 * self._seconds + 0.1 * each if self._seconds else each
        longest = math.ceil(self._seconds * made / max(SHARE * seconds, 1e-9)) - 1
        self._longest = max(SHORT, min(longest, LONG))

    def learn(self, window: DraftWindow) -> None:
        """Record the overlaps of the drafted tokens that were verified, by their sources."""
        formula = hash(window.plan.formula)
        for source, overlap in window.seen:
            total, weight = self._stood.pop((formula, source), _PRIOR)
            self._stood[formula, source] = total * _KEPT + overlap, weight * _KEPT + 1
        window.seen.clear()
        while len(self._stood) > _MOST_AVERAGES:
            del self._stood[next(iter(self._stood))]

    def _chances(self, window: DraftWindow, sources: Iterable[Hashable]) -> list[float]:
        """Return, for each token, the chance that it and all tokens before it are accepted.

        `sources` are the sources of the tokens.
        """
        formula = hash(window.plan.formula)
        noted = [self._stood.get((formula, source), _PRIOR) for source in sources]
        return list(accumulate((total / weight for total, weight in noted), mul))

    def _proposed(self, text: Drafts) -> Draft:
        """Return the proposed draft with the largest expected number of accepted tokens."""
        window, rows = text.window, text.window.plan.rows
        drafts = [
            Draft(self._chances(window, sources), rows, 0.0, tokens, sources)
            for tokens, sources in text.proposals(min(MOST - 1, window.tokens_left))
        ]
        return max(drafts, key=attrgetter("gain"), default=Draft((), rows))

    def _drawn(self, text: Drafts, drawing: int) -> Draft:
        """Return the draft that a text's own models may make.

        `drawing` is the number of texts whose models would draft in this round.

        If the cost of a pass of these models is not known, the draft has one token, so that this
        cost can be measured.
        """
        window, models = text.window, text.window.models
        limit = min(MOST - 1, window.tokens_left)
        times = self.times_of([text.scorer_of(term) for term in models])
        # A model that drafts also reads tokens that were verified since its last pass, so two rows
        # are counted for each model and text.
        seconds = times.cost(2 * drawing * len(models))
        chances = self._chances(window, [MODEL] * (limit if seconds else min(1, limit)))
        return Draft(chances, window.plan.rows, seconds or 0.0)

    def times_of(self, scorers: Collection[object]) -> PassTimes:
        """Return the record of the passes of these scorers."""
        key = frozenset(map(ref, scorers))
        if key not in self._times:
            # Records of scorers that no longer exist would never be used again.
            alive = {k: t for k, t in self._times.items() if all(scorer() for scorer in k)}
            self._times = {**alive, key: self._new_times()}
        return self._times[key]
