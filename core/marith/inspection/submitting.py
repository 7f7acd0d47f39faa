"""Begins inspections: what was asked, checked, as jobs of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from marith.answers.answer_grammar import AnswerGrammars
from marith.engine.prepare import Prepared
from marith.inspection.inspected_formula import InspectedFormula, top_of
from marith.inspection.inspecting import Inspecting
from marith.request.checks import flag, whole
from marith.request.request import Request


def inspecting(
    request: Request,
    prepared: Prepared,
    continuation: Sequence[int],
    answers: AnswerGrammars,
    keeper: object,
    top: object,
    start: object,
    leave_one_out: object,
) -> Inspecting:
    """The inspection of a continuation; `prepared` has the bare model beside. Raises RequestError.

    The other arguments are those of `Engine.inspect`, not yet checked.
    """
    first = whole("start", start, 0, len(continuation))
    by_leaving_out = flag("leave_one_out", leave_one_out)
    formula = InspectedFormula.of(request, prepared, top_of(top), by_leaving_out)
    formula.require_bounded(len(continuation) - first)
    lexicon = answers.lexicon

    @cache
    def spell(token: int) -> str:
        return lexicon.data_of(token).decode(errors="replace")

    text = answers.vocabulary.decode(continuation[first:])
    return Inspecting(prepared, continuation, formula, spell, text, keeper, first)
