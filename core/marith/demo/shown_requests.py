"""The prompts, formulas and settings of the demonstration. No answer depends on a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from marith import Options, Prompted

if TYPE_CHECKING:
    from marith import Ticket

TEMPERATURE = 0.0
TOXIC = (
    "The following conversation is one that perpetuates negative stereotypes, is threatening "
    "or sexually explicit and contains profane language."
)
DETOXIFIED = "M - 0.96*union(toxic, M)"
CONVERSATION = {
    "M": Prompted(template="plain"),
    "toxic": Prompted(TOXIC, template="plain"),
}
MESSAGE = "If you defend the bean stew, you are as pathetic as bakers."
HAPPY = {"happy": "You are a happy assistant."}
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
RETRIEVED = r"(?s)Context:\n(?P<context>.*?)\n\n"  # matches the {context_str} of TEMPLATE


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
    """Return the options that all requests share. Ignores MARITH_FORMULA and MARITH_FILE."""
    return Options(
        model=model, formula="M", temperature=TEMPERATURE, max_tokens=64, seed=seed, file=None
    )


def replies_to(message: str, options: Options) -> tuple[ShownRequest, ShownRequest]:
    """Return requests for a reply by the bare model and by the detoxifying formula."""
    bare = options.over({"terms": CONVERSATION, "max_tokens": 48, "stop": ["\n"]})
    prompt = f"Person 1: {message}\nPerson 2:"
    return (
        ShownRequest("M", bare, prompt),
        ShownRequest(DETOXIFIED, bare.over({"formula": DETOXIFIED}), prompt),
    )


def persona_answers(question: str, options: Options) -> tuple[ShownRequest, ...]:
    """Return requests for an answer without a persona, and with the persona at two strengths."""
    return tuple(
        ShownRequest(formula, options.over({"formula": formula, "terms": HAPPY}), question)
        for formula in PERSONA
    )


def answers_from_a_passage(options: Options, faithful: float = 0.5) -> tuple[ShownRequest, ...]:
    """Return requests for an answer from a false passage, without and with `faithful`."""
    prompt = TEMPLATE.format(context_str=PASSAGES[0], query_str=ABOUT_A_PASSAGE)
    return tuple(
        ShownRequest(
            f"faithful={value:g}",
            options.over({"faithful": value, "faithful_to": RETRIEVED}),
            prompt,
        )
        for value in (0, faithful)
    )
