"""Prints the demonstration, each part as soon as it is complete."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import mean

from marith import Options
from marith.demo.frameworks import LANGCHAIN, LLAMAINDEX, answer_function
from marith.demo.measured_replies import replies, toxicity
from marith.demo.printed_lines import Printer
from marith.demo.shown_requests import (
    ABOUT_A_PASSAGE,
    HAPPY,
    MESSAGE,
    PASSAGES,
    TEMPLATE,
    ShownRequest,
    answers_from_a_passage,
    options_for,
    persona_answers,
    replies_to,
)

POCKET = "pocket"
QUESTION = "What do you know about snakes?"
FAITHFUL = 0.25  # the option `faithful` for models larger than pocket


def run(model: str, question: str | None = None, seed: int = 0) -> None:
    """Print answers before and after formulas, with their measures.

    Measures need the model pocket, because the package contains classifiers for it. Another model
    shows a persona and an answer from a passage. Raises ModelError if the model cannot be loaded.
    """
    printer, options, question = Printer(), options_for(model, seed), question or QUESTION
    printer.line(
        f"marith demo: M is the model {model}. It takes the likeliest token each time.", "dim"
    )
    with printer.progress(f"loading {model}"):
        options.engine()
    if model == POCKET:
        reply = _detoxified(printer, options, seed)
        _persona(printer, options, question, "2")
        passage = _from_a_passage(printer, options, "3")
        _by_frameworks(printer, reply, passage)
    else:
        _persona(printer, options, question, "1")
        _from_a_passage(printer, options, "2", FAITHFUL)
    printer.line("Try your own --question and --seed.", "dim")


Answered = tuple[ShownRequest, str]  # a request and its text


def _detoxified(printer: Printer, options: Options, seed: int) -> Answered:
    printer.title("1  A reply to a hostile message, without and with detoxification")
    printer.row("Person 1", MESSAGE)
    texts = []
    for request in replies_to(MESSAGE, options):
        with printer.progress("replying"):
            texts.append(request.submit().result().text.strip())
        printer.row(request.label, texts[-1])
    with printer.progress("replying to more messages"):
        others = replies(options, seed)
        before, after, *scores = toxicity([*texts, *others.bare, *others.detoxified])
    count = len(others.bare)
    means = mean(scores[:count]), mean(scores[count:])
    printer.row("toxicity by classifier", _fall(before, after))
    printer.row(f"mean over {count} messages", f"{_fall(*means)}  (sampled, seed {seed})")
    return request, texts[-1]


def _fall(before: float, after: float) -> str:
    return f"{before:.2f} → {after:.2f}"


def _persona(printer: Printer, options: Options, question: str, part: str) -> None:
    printer.title(f'{part}  A persona at two strengths: happy is "{HAPPY["happy"]}"')
    printer.row("question", question)
    _answers(printer, persona_answers(question, options))


def _from_a_passage(
    printer: Printer, options: Options, part: str, faithful: float = 0.5
) -> Answered:
    printer.title(f"{part}  A retrieved passage that contradicts what the model has learnt")
    printer.row("passage", PASSAGES[0])
    printer.row("question", ABOUT_A_PASSAGE)
    return _answers(printer, answers_from_a_passage(options, faithful))


def _answers(printer: Printer, requests: Sequence[ShownRequest]) -> Answered:
    """Print the answers, which are generated together. Return the last request and its text."""
    tickets = [request.submit() for request in requests]
    for request, ticket in zip(requests, tickets, strict=True):
        with printer.progress("answering"):
            text = ticket.result().text.strip()
        printer.row(request.label, text)
    return request, text


def _by_frameworks(printer: Printer, reply: Answered, passage: Answered) -> None:
    """Answer one request from above through each framework. Equal texts are not printed again."""
    printer.title("4  The same in an application: only the model's line is marith's")
    chain, query = "prompt | ChatMarith(…) | StrOutputParser()", "a query engine with llm=Marith(…)"
    asked = (ABOUT_A_PASSAGE, PASSAGES, TEMPLATE)
    _by_framework(printer, LANGCHAIN, reply, (reply[0].prompt,), f"{chain:<45}the text of part 1")
    _by_framework(printer, LLAMAINDEX, passage, asked, f"{query:<45}the text of part 3")


def _by_framework(
    printer: Printer, framework: str, answered: Answered, asked: Sequence[object], equal: str
) -> None:
    request, expected = answered
    with printer.progress(f"asking through {framework}"):
        answer = answer_function(framework)
        begun = time.perf_counter()
        text = answer if isinstance(answer, str) else answer(request.options, *asked).strip()
        seconds = time.perf_counter() - begun
    printer.row(framework, f"{equal}, {seconds:.1f} s" if text == expected else text)
