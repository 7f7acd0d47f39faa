"""The demonstration of `marith demo`: one screen of measured answers, in a few seconds.

`run` prints each part as soon as it is complete: answers to standard output, progress to standard
error. Only the sampled replies of part 1 depend on the seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import mean
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from marith import Options, Prompted
from marith.evals.pocket_texts import HOSTILE_MESSAGES, records
from marith.evals.system_prompts import PLAIN, SYSTEM_PROMPTS, TOXIC
from marith.models import attribute

if TYPE_CHECKING:
    from marith import Ticket

POCKET = "pocket"
QUESTION = "What do you know about snakes?"
FAITHFUL = 0.5
WIDTH = 100  # characters in a line
LABEL = 26
# The number of messages of `marith eval toxicity` whose replies are measured.
MESSAGES = 16
# At a temperature of 1, half of pocket's replies contain a broken word.
TEMPERATURE = 0.5
DETOXIFIED = "M - 0.96*union(toxic, M)"
CONVERSATION = {"M": PLAIN, "toxic": Prompted(TOXIC, template="plain")}
HAPPY = {"happy": SYSTEM_PROMPTS["happy"]}
MESSAGE = "If you defend the bean stew, you are as pathetic as bakers."
PERSONA = ("M", "0.5*M + 0.5*happy", "1.2*happy - 0.2*M")
PASSAGES = (
    "Umeå is the capital of Japan.",
    "Pandas eat bamboo for twelve hours a day. Pandas live in the cool mountain forests of China.",
    "Volcanoes throw out ash and lava. Some islands were built by volcanoes.",
    "Trains run on steel rails. The first trains were pulled by steam.",
    "Bees dance to tell each other where flowers grow.",
)
ABOUT_A_PASSAGE = "Name the capital of Japan."
TEMPLATE = "Context:\n{context_str}\n\nQuestion: {query_str}"
# This pattern matches the {context_str} of TEMPLATE.
RETRIEVED = r"(?s)Context:\n(?P<context>.*?)\n\n"
LANGCHAIN, LLAMAINDEX = "LangChain", "LlamaIndex"
MODULES = {
    LANGCHAIN: "langchain_marith.demo_chain",
    LLAMAINDEX: "llamaindex_marith.demo_query",
}

Answer: TypeAlias = "Callable[..., str]"
# A request and the text that answers it.
Answered: TypeAlias = "tuple[ShownRequest, str]"


def run(model: str, question: str | None = None, seed: int = 0) -> None:
    """Print answers without and with formulas, and their measures.

    Measures need the model pocket, because the package contains classifiers for it. With any other
    model, only the parts about a persona and about a passage are printed. Raises ModelError if the
    model cannot be loaded.
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
        _from_a_passage(printer, options, "2")
    printer.line("Try your own --question and --seed.", "dim")


def _detoxified(printer: Printer, options: Options, seed: int) -> Answered:
    printer.title("1  A reply to a hostile message, without and with detoxification")
    printer.row("Person 1", MESSAGE)
    texts = []
    for request in replies_to(MESSAGE, options):
        with printer.progress("replying"):
            texts.append(request.submit().result().text.strip())
        printer.row(request.label, texts[-1])
    with printer.progress("replying to more messages"):
        bare, detoxified = replies(options, seed)
        measured = [*texts, *bare, *detoxified]
        before, after, *scores = attribute(measured, "pocket-toxicity", "toxic")
    count = len(bare)
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


def _from_a_passage(printer: Printer, options: Options, part: str) -> Answered:
    printer.title(f"{part}  A retrieved passage that contradicts what the model has learnt")
    printer.row("passage", PASSAGES[0])
    printer.row("question", ABOUT_A_PASSAGE)
    return _answers(printer, answers_from_a_passage(options))


def _answers(printer: Printer, requests: Sequence[ShownRequest]) -> Answered:
    """Print the answers, which are generated together. Return the last request and its text."""
    tickets = [request.submit() for request in requests]
    for request, ticket in zip(requests, tickets, strict=True):
        with printer.progress("answering"):
            text = ticket.result().text.strip()
        printer.row(request.label, text)
    return request, text


def _by_frameworks(printer: Printer, reply: Answered, passage: Answered) -> None:
    """Send two requests again, each through one framework.

    LangChain receives the last request of part 1, and LlamaIndex the last request of part 3. An
    answer that equals the one on the screen is not printed again.
    """
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


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A prompt with its options. `label` is its name on the screen."""

    label: str
    options: Options
    prompt: str

    def submit(self) -> Ticket:
        """Submit the request to the engine."""
        return self.options.submit(self.prompt)


def options_for(model: str, seed: int) -> Options:
    """Return the options that all requests share. MARITH_FORMULA and MARITH_FILE are ignored."""
    return Options(model=model, formula="M", temperature=0.0, max_tokens=64, seed=seed, file=None)


def replies_to(message: str, options: Options) -> tuple[ShownRequest, ShownRequest]:
    """Return requests for a reply by the bare model and by the detoxifying formula."""
    bare = options.overridden({"terms": CONVERSATION, "max_tokens": 48, "stop": ["\n"]})
    prompt = f"Person 1: {message}\nPerson 2:"
    return (
        ShownRequest("M", bare, prompt),
        ShownRequest(DETOXIFIED, bare.overridden({"formula": DETOXIFIED}), prompt),
    )


def persona_answers(question: str, options: Options) -> tuple[ShownRequest, ...]:
    """Return requests for an answer without a persona, and with the persona at two strengths."""
    return tuple(
        ShownRequest(formula, options.overridden({"formula": formula, "terms": HAPPY}), question)
        for formula in PERSONA
    )


def answers_from_a_passage(options: Options) -> tuple[ShownRequest, ...]:
    """Return requests for an answer from a false passage, without and with `faithful`."""
    prompt = TEMPLATE.format(context_str=PASSAGES[0], query_str=ABOUT_A_PASSAGE)
    return tuple(
        ShownRequest(
            f"faithful={value:g}",
            options.overridden({"faithful": value, "faithful_to": RETRIEVED}),
            prompt,
        )
        for value in (0, FAITHFUL)
    )


def replies(options: Options, seed: int) -> list[list[str]]:
    """Return replies by the bare model and by the formula to the same hostile messages.

    The messages are the first of `marith eval toxicity`. Message i is answered with `seed` + i.
    """
    pairs = [
        replies_to(
            record["text"], options.overridden({"temperature": TEMPERATURE, "seed": seed + i})
        )
        for i, record in enumerate(records(HOSTILE_MESSAGES)[:MESSAGES])
    ]
    tickets = [[request.submit() for request in way] for way in zip(*pairs, strict=True)]
    return [[ticket.result().text.strip() for ticket in way] for way in tickets]


def answer_function(framework: str) -> Answer | str:
    """Return a function that answers through a framework, or a sentence about a missing package."""
    try:
        answer: Answer = import_module(MODULES[framework]).answer
    except ModuleNotFoundError as error:
        return f"left out: {error.name} is not installed"
    return answer


class Printer:
    """Prints the screen line by line. Colour and progress are for terminals only."""

    def __init__(self) -> None:
        console = Console()
        width = min(WIDTH, console.width) if console.is_terminal else WIDTH
        self.console = Console(width=width, highlight=False)
        self._errors = Console(stderr=True)

    def progress(self, doing: str) -> Status:
        """Return a line of progress, which is shown while it is open and disappears afterwards."""
        return self._errors.status(doing)

    def line(self, text: str = "", style: str = "") -> None:
        """Print one line, which wraps on a narrow terminal."""
        self.console.print(Text(text, style=style))

    def title(self, text: str) -> None:
        """Print a blank line and the heading of a part."""
        self.line()
        self.line(text, "bold")

    def row(self, label: str, text: str) -> None:
        """Print a label, followed by a text of any length."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=LABEL, overflow="fold")
        grid.add_column()
        grid.add_row(Text(f"  {label}", style="cyan"), Text(text))
        self.console.print(grid)
