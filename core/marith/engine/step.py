"""One step of the engine: evaluate, compose, verify and accept, for all jobs together."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from marith.decoding.evaluate import candidates_of
from marith.engine.jobs.queries import TextQuery, share
from marith.engine.plain_texts import PlainTexts
from marith.engine.turn import Turn
from marith.engine.verified_texts import VerifiedTexts, compose_all
from marith.formula.tree.terms import Classifier
from marith.scoring.passes.questions import Span
from marith.scoring.scorer import Scorer
from marith.speculation.auto import Controller
from marith.tensor_rows import gather, to_lists


def step(
    turns: Sequence[Turn],
    controller: Controller,
    checked: bool = False,
    text_later: bool = False,
) -> None:
    """Draft for all texts first, so that all verifications share one pass. Then verify.

    A step that raises before any job accepts its verdict can be repeated for each job alone. With
    `checked`, the error says where NaN came from: the step waits for the device more often, and
    examines the rows of the terms. With `text_later`, tokens become text in the next step, while
    the device computes.
    """
    turns = within_memory(turns)
    choose_drafts(turns, controller)
    ahead = [turn for turn in turns if turn.only_drafts]
    while ahead:
        ready = [turn for turn in run(ahead, controller, checked, text_later) if not turn.job.done]
        for turn in ready:
            turn.ask()
        ahead = [turn for turn in ready if turn.only_drafts]
        # A query whose terms are all drafts may already be done after this round.
        turns = [turn for turn in turns if not turn.job.done]
    run(turns, controller, checked, text_later)


def within_memory(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Return all turns but the queries that must wait until a step has memory for their rows."""
    scorings = [(turn.job, bool(turn.answers)) for turn in turns if isinstance(turn.job, TextQuery)]
    if not scorings:
        return turns
    begun = [job for job, has_answers in scorings if has_answers]
    others = [job for job, has_answers in scorings if not has_answers]
    # A query with answers of some terms keeps its turn, because its rows are in memory already.
    waiting = {id(job) for job in others[len(share(others, begun)) :]}
    return [turn for turn in turns if id(turn.job) not in waiting] if waiting else turns


def choose_drafts(turns: Sequence[Turn], controller: Controller) -> None:
    """Choose the draft lengths of the texts that are due, and ask every job what it wants."""
    jobs = [turn.job for turn in turns if not turn.answers]
    texts = [job.drafts for job in jobs if job.drafts is not None and job.drafts.due()]
    if texts:
        prepared = [job.prepared for job in jobs]
        scorers = {one.lanes.scorers[term] for one in prepared for term in one.plan.terms}
        rows = sum(turn.job.prepared.plan.rows for turn in turns)
        controller.plan(texts, scorers, rows, len(jobs))
    for turn in turns:
        turn.ask()


def run(
    turns: Sequence[Turn], controller: Controller, checked: bool, text_later: bool
) -> list[Turn]:
    """Run one round, and return the turns whose terms have all been evaluated.

    The round is timed if any plan chooses its draft lengths by measured times.
    """
    scorers: set[Scorer] = set()
    if any(turn.job.prepared.plan.chooses_lengths for turn in turns):
        scorers = {turn.job.prepared.lanes.scorers[term] for turn in turns for term in turn.counts}
    read, started = sum(scorer.tokens_read for scorer in scorers), time.perf_counter()
    ready = score(turns, checked)
    groups: list[PlainTexts | VerifiedTexts] = []
    if plain := [turn for turn in ready if turn.job.is_plain]:
        groups.append(PlainTexts(plain, checked, text_later))
    if checks := compose_all([turn for turn in ready if not turn.job.is_plain], checked):
        groups.append(VerifiedTexts(checks))
    # The host converts the tokens of the last step while the device computes.
    for turn in turns:
        turn.job.convert()
    numbers = to_lists([group.results for group in groups])
    for group, own in zip(groups, numbers, strict=True):
        group.require_drawn(own)
    if scorers:
        seconds, rows = time.perf_counter() - started, judged(turns)
        # The cost of a pass depends on its rows: tokens that models read, and positions that
        # classifiers judge.
        rows += sum(scorer.tokens_read for scorer in scorers) - read
        if rows:
            controller.times_of(scorers).note(rows, seconds)
    for group, own in zip(groups, numbers, strict=True):
        group.accept(own)
    for turn in ready:
        drafts = turn.job.drafts
        if drafts is not None and drafts.window.seen:
            controller.learn(drafts.window)
    return ready


def judged(turns: Sequence[Turn]) -> int:
    """Return the number of positions that classifiers are to judge."""
    wanted = [item for turn in turns for item in turn.counts.items()]
    return sum(count for term, count in wanted if isinstance(term, Classifier))


def score(turns: Sequence[Turn], checked: bool) -> list[Turn]:
    """Evaluate the wanted positions, and return the turns whose terms have all been evaluated."""
    _score(
        (turn, scorer, span)
        for turn in turns
        for scorer, span in turn.spans
        if span.term not in turn.answers
    )
    ready = [turn for turn in turns if len(turn.answers) == len(turn.counts)]
    if len(ready) == len(turns):
        return ready
    # A classifier judges the likeliest tokens of its guide, whose rows are known only now.
    judging = [turn for turn in turns if turn.waits_for_classifiers]
    _score(
        (turn, scorer, span)
        for turn in judging
        for scorer, span in _classifier_spans(turn, checked)
    )
    return [turn for turn in turns if len(turn.answers) == len(turn.counts)]


def _score(asked: Iterable[tuple[Turn, Scorer, Span]]) -> None:
    """Call each scorer once, for the spans of all jobs."""
    of_scorers: dict[Scorer, list[tuple[Turn, Span]]] = defaultdict(list)
    for turn, scorer, span in asked:
        of_scorers[scorer].append((turn, span))
    for scorer, pairs in of_scorers.items():
        answers = scorer.score([span for _, span in pairs])
        for (turn, span), answer in zip(pairs, answers, strict=True):
            # A scorer that still reads a long prompt has no answer yet.
            if answer is not None:
                turn.answers[span.term] = answer


def _classifier_spans(turn: Turn, checked: bool) -> Iterator[tuple[Scorer, Span]]:
    """Yield the spans of classifiers: each judges the likeliest tokens of its guide."""
    job, prepared = turn.job, turn.job.prepared
    for classifier, count in turn.counts.items():
        if classifier not in turn.answers:
            assert isinstance(classifier, Classifier)
            guide = prepared.plan.guide_of(classifier)
            rows = job.rows(prepared.plan.leaves(guide), count, turn.answers)
            if checked:
                prepared.lanes.require_numbers(rows)
            logprobs = {term: gather(term_rows) for term, term_rows in rows.items()}
            tokens = candidates_of(guide, logprobs, classifier.candidates, classifier.coverage)
            lanes = prepared.lanes
            yield lanes.scorers[classifier], lanes.span(classifier, turn.text, count, tokens)
