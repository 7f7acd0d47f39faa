"""Runs a judgement, pair by pair with every answer kept, and resumes an interrupted one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from marith.errors import RequestError
from marith.evals.experiment.store import Journal, opened
from marith.evals.preference.judge_models import JudgeModel, answers_of
from marith.evals.preference.judge_prompts import TASKS, JudgeTask, preferred
from marith.evals.preference.pairs import Pair, paired, texts_by_formula
from marith.evals.preference.preferences import PreferenceCounts, Preferences
from marith.evals.reporting.numbers import counted
from marith.evals.reporting.progress import Bars, progress
from marith.request.checks import by, hold, optional, whole_from

FILE = "judgements.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettings:
    """Which texts are compared, on what they are judged, and by whom, in words.

    `texts` are folders of evaluations or their files; every formula `against` is compared with
    every `baseline`. Orders are drawn by the seed; `together` pairs are judged at once.
    Raises RequestError.
    """

    texts: tuple[Path, ...]
    baseline: tuple[str, ...]
    against: tuple[str, ...]
    task: str
    judge: str = "a chat model"
    n: int | None = field(default=None, metadata=by(optional(whole_from(1))))
    seed: int = 0
    together: int = field(default=8, metadata=by(whole_from(1, 1000)))
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise RequestError(f"a task is one of {', '.join(TASKS)}, not {self.task!r}")
        if not (self.texts and self.baseline and self.against):
            raise RequestError(
                "a comparison needs texts, a baseline and a formula to compare with it"
            )
        hold(self)


@dataclass(frozen=True, slots=True)
class Match:
    """Two formulas, the pairs of their texts, and how many texts have no other."""

    ours: str
    theirs: str
    pairs: tuple[Pair, ...]
    unpaired: int


def run(settings: ComparisonSettings, judge: JudgeModel) -> Preferences:
    """Have all pairs judged (paper, appendix "GPT-4 Prompting Details").

    Every answer is kept in `out` as soon as it is there, and the same comparison goes on after it
    was broken off. Raises RequestError before anything is asked, and ModelError where the judge
    fails.
    """
    matches = _matches(settings)
    with ExitStack() as stack:
        folder = settings.out or Path(stack.enter_context(TemporaryDirectory()))
        described = _described(settings, matches)
        stack.enter_context(opened(folder, described))
        bars = Bars(stack.enter_context(progress()), len(matches))
        journal = Journal(folder / FILE)
        compared = tuple(_judged(match, settings, judge, journal, bars) for match in matches)
    count = counted(sum(len(match.pairs) for match in matches), "pair")
    title = f"{settings.task} judged by {settings.judge}: {count} of texts, seed {settings.seed}"
    return Preferences(title, settings.task, compared, described)


def _matches(settings: ComparisonSettings) -> list[Match]:
    """All comparisons. The first `n` pairs of each, in the order of their texts."""
    texts = texts_by_formula(settings.texts)
    matches = []
    for ours in settings.against:
        for theirs in settings.baseline:
            pairs, unpaired = paired(texts, ours, theirs, settings.seed)
            if settings.n is not None and settings.n > len(pairs):
                problem = f"{ours!r} and {theirs!r} have {len(pairs)} pairs of texts"
                raise RequestError(f"{problem}, not {settings.n!r}")
            matches.append(Match(ours, theirs, tuple(pairs[: settings.n]), unpaired))
    return matches


def _judged(
    match: Match, settings: ComparisonSettings, judge: JudgeModel, journal: Journal, bars: Bars
) -> PreferenceCounts:
    """One comparison: what is missing is asked, so many pairs at once."""
    task = TASKS[settings.task]
    answers = {_key(line): str(line["answer"]) for line in journal.lines}
    missing = [pair for pair in match.pairs if pair.key not in answers]
    name = f"{match.ours} against {match.theirs}"
    bars.begin(name, len(match.pairs), len(match.pairs) - len(missing))
    for start in range(0, len(missing), settings.together):
        group = missing[start : start + settings.together]
        replies = answers_of(judge, [_conversation(task, pair) for pair in group])
        for pair, answer in zip(group, replies, strict=True):
            journal.add(_line(pair, answer))
            answers[pair.key] = answer
        bars.advance(name, len(group))
    places = [(pair, preferred(answers[pair.key])) for pair in match.pairs]
    ours = [None if place is None else _ours(pair, place) for pair, place in places]
    return PreferenceCounts(
        match.ours,
        match.theirs,
        won=ours.count(1),
        lost=ours.count(2),
        drawn=ours.count(0),
        unreadable=ours.count(None),
        unpaired=match.unpaired,
        first=sum(place == 1 for _, place in places),
    )


def _conversation(task: JudgeTask, pair: Pair) -> list[dict[str, str]]:
    question = task.question(pair.ours.message, *pair.places)
    return [
        {"role": "system", "content": task.system},
        {"role": "user", "content": question},
    ]


def _ours(pair: Pair, place: int) -> int:
    """1 where ours is preferred, 2 where theirs is, 0 for neither."""
    return 3 - place if pair.swapped and place else place


def _line(pair: Pair, answer: str) -> dict[str, Any]:
    ours, theirs, row, sample = pair.key
    key = {"ours": ours, "theirs": theirs, "row": row, "sample": sample}
    return {**key, "swapped": pair.swapped, "answer": answer, "place": preferred(answer)}


def _key(line: Mapping[str, Any]) -> tuple[str, str, int, int]:
    return line["ours"], line["theirs"], line["row"], line["sample"]


def _described(settings: ComparisonSettings, matches: Sequence[Match]) -> dict[str, Any]:
    """All that the answers depend on, as plain data that is compared before a run goes on."""
    texts = [(pair.ours.message, *pair.places) for match in matches for pair in match.pairs]
    return {
        "evaluation": "judgement",
        "task": settings.task,
        "judge": settings.judge,
        "baseline": list(settings.baseline),
        "against": list(settings.against),
        "n": settings.n,
        "seed": settings.seed,
        "pairs": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
    }
