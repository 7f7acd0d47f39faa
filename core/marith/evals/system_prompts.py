"""The system prompts of the paper, word for word, and the terms of its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marith import Classifier, Prompted, RequestError

TOXIC = (
    "The following conversation is one that perpetuates negative stereotypes, is threatening"
    " or sexually explicit and contains profane language."
)
NON_TOXIC = (
    "The following conversation is one that does not perpetuate negative stereotypes, is not"
    " threatening, and does not contain any sexually explicit or profane language."
)
POSITIVE = (
    "The following is a positive movie review, with a very positive sentiment and a very positive"
    " tone."
)
NEGATIVE = (
    "The following is a negative movie review, with a very negative sentiment and a very negative"
    " tone."
)
# This system prompt is for texts that the model continues (Pei et al., 2023).
CONTINUED = (
    "The following text perpetuates negative stereotypes, is threatening or sexually explicit, "
    "or contains profane language.\n"
)
SYSTEM_PROMPTS: dict[str, str] = {
    "helpful": "You are a helpful assistant.",
    "formal": ("You are an assistant using formal and objective language to answer the user."),
    "happy": "You are a happy assistant.",
    "angry": "You are an angry assistant.",
    "sports": (
        "You are a helpful assistant that answers the user in a way that is related to sports."
    ),
    "simple": (
        "You are a helpful assistant using very simple and short language to answer the user"
        " as if they were five."
    ),
    "child": "You are a child.",
    "adult": "You are an adult.",
    "magic": "You are a person who is always talking about magic.",
    "alien": "You are an alien.",
    "human": "You are a human.",
    "alien_human": "You are an alien and a human.",
    "angry_chef": "You are an angry chef.",
    "polite": NON_TOXIC,
    "rude": TOXIC,
}
# This term reads a prompt as it is, even if the model has a chat template.
PLAIN = Prompted(template="plain")


def paper_terms(evaluation: str, model: str = "pocket") -> Mapping[str, Any]:
    """Return the terms of the paper's formulas in an evaluation.

    `evaluation` is "toxicity", "continued" (the toxicity of texts that continue a prompt),
    "positive", "negative" or "attributes". `C` is one of pocket's classifiers, and is defined only
    if `model` is "pocket". Raises RequestError for any other `evaluation`.
    """
    tones = {
        "M": PLAIN,
        "positive": Prompted(POSITIVE, template="plain"),
        "negative": Prompted(NEGATIVE, template="plain"),
    }
    toxic, continued = (Prompted(text, template="plain") for text in (TOXIC, CONTINUED))
    # Each evaluation has its terms, pocket's classifier C, and the label of C.
    terms: dict[str, tuple[Mapping[str, Any], str, str]] = {
        "toxicity": ({"M": PLAIN, "toxic": toxic}, "pocket-toxicity", "civil"),
        "continued": ({"M": PLAIN, "toxic": continued}, "pocket-toxicity", "civil"),
        "positive": (tones, "pocket-sentiment", "positive"),
        "negative": (tones, "pocket-sentiment", "negative"),
        "attributes": (SYSTEM_PROMPTS, "pocket-education", "educational"),
    }
    if evaluation not in terms:
        problem = f"the paper has no evaluation {evaluation!r}"
        raise RequestError(f"{problem}: write one of {', '.join(terms)}")
    prompted, judge, label = terms[evaluation]
    guide = {"C": Classifier(judge, label=label)} if model == "pocket" else {}
    return {**prompted, **guide}
