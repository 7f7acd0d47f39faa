"""Begins inspections: what was asked, checked, as jobs of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.engine.jobs.queries import tokens_of
from marith.engine.prepare import Prepared
from marith.engine.threads.deadline import Deadline
from marith.errors import RequestError, faults_named, shown
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.inspection.formula_numbers import NumberedFormula
from marith.inspection.inspected_formula import InspectedFormula, top_of
from marith.inspection.inspecting import Inspecting, TokenTexts
from marith.inspection.keeping_rows import KeepingRows
from marith.inspection.redrawing import Redrawing
from marith.inspection.what_if import WhatIf, require_bytes
from marith.request.checks import byte_count, flag, whole
from marith.request.completion import Completion
from marith.request.request import Request


def inspecting(
    request: Request,
    prepared: Prepared,
    continuation: Sequence[int],
    answers: AnswerGrammars,
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
    text = answers.vocabulary.decode(continuation[first:])
    texts = TokenTexts(answers.lexicon)
    return Inspecting(prepared, continuation, formula, texts, text, first)


def keeping(
    request: Request,
    completion: Completion,
    most_bytes: object,
    open_with: Callable[[Request, Deadline, Formula], Prepared],
    answers: AnswerGrammars,
) -> KeepingRows[WhatIf]:
    """The query of the log-probabilities of every term for a completion; see `Engine.what_if`.

    `open_with` prepares a request with the terms of a formula beside. Raises RequestError.
    """
    _require_kinds(request, completion)
    most = byte_count("most_bytes", most_bytes)
    deadline = Deadline.of(request.timeout)
    beside = NumberedFormula.of(request.formula).without_zeros()
    with faults_named():
        prepared = open_with(replace(request, speculation=None), deadline, beside)
        tokens_of(completion.tokens, answers.vocabulary, prepared.room)
        redrawing = Redrawing(request, prepared, completion, answers)
    continuation, start = redrawing.continuation, redrawing.start
    require_bytes(prepared, len(continuation) - start, most)

    def made(rows: Mapping[Term, Tensor]) -> WhatIf:
        return WhatIf(request, prepared, rows, redrawing, answers)

    prepared = replace(prepared, more=len(continuation))
    return KeepingRows(prepared, continuation, made, start)


def _require_kinds(request: object, completion: object) -> None:
    if not isinstance(request, Request):
        raise RequestError(f"what_if takes the Request of a completion, not {shown(request)}")
    if not isinstance(completion, Completion):
        raise RequestError(f"what_if takes a Completion, not {shown(completion)}")
    if not completion.tokens and completion.finish_reason == "length":
        raise RequestError("the completion has no tokens")
