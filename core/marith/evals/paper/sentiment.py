"""Sentiment: does a review that began in one tone end in the other? The paper's two tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marith.errors import ModelError, RequestError
from marith.evals.experiment.evaluation_settings import PLAIN, POCKET, source_texts
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.summary import Summary
from marith.evals.experiment.texts import PromptRow
from marith.evals.metrics.text_perplexity import Perplexity
from marith.evals.paper import steering_evaluation
from marith.evals.paper.paper_tables import table
from marith.evals.paper.steering_evaluation import AttributeGoal, SteeringEvaluation
from marith.evals.pocket_texts import REVIEWS_OF
from marith.evals.system_prompts import NEGATIVE, POSITIVE
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Prompted
from marith.request.stop import Stop
from marith.scoring.checkpoints.locate import EMBEDDED
from marith.scoring.checkpoints.reading import read_tokenizer

TONES = ("negative", "positive")
BEGINNING = 32  # tokens of a review
MAX_TOKENS = 64
STOPS = ("\n",)
TERMS: Terms = {
    "M": PLAIN,
    "positive": Prompted(POSITIVE, template="plain"),
    "negative": Prompted(NEGATIVE, template="plain"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentSettings(steering_evaluation.SteeringSettings):
    """Reviews are continued in the tone that `to` names, "positive" or "negative"."""

    to: str

    def __post_init__(self) -> None:
        super(SentimentSettings, self).__post_init__()
        if self.to not in TONES:
            raise RequestError(f"a tone is one of {', '.join(TONES)}, not {self.to!r}")


Settings = SentimentSettings  # as callers write it: `sentiment.Settings(n=4)`


def run(settings: SentimentSettings, ask: bool = False) -> Summary:
    """The paper's formulas, or others, over beginnings of reviews (paper, "Sentiment Control").

    `M` reads the first 32 tokens of a review, `positive` and `negative` a sentence before them
    that announces its tone. Data should be of the other tone, as pocket's own reviews are.
    With `ask` a terminal is asked before a very long run. Raises FormulaError, ModelError or
    RequestError before anything is made.
    """
    return steering_evaluation.run(evaluation(settings), settings.out, ask)


def evaluation(settings: SentimentSettings) -> SteeringEvaluation:
    """What there is to do. Loads a judge, to be sure that it is there, and no language model."""
    goal = AttributeGoal(
        settings.to,
        "higher",
        pocket=("pocket-sentiment", settings.to),
        open=("cardiffnlp/twitter-roberta-base-sentiment-latest", settings.to),
        prefers=settings.to,
        tone=settings.to,
    )
    paper_table = table(settings.to)
    formulas, terms = steering_evaluation.formulas_and_terms(settings, goal, paper_table, TERMS)
    metric, notes = steering_evaluation.attribute_metric(settings, goal)
    other = TONES[1 - TONES.index(settings.to)]
    reviews = source_texts(settings, REVIEWS_OF[other])
    rows, texts = zip(*reviews.texts, strict=True)
    shortened = beginnings(settings.model, texts, revision=settings.revision)
    experiment = Experiment(
        f"{settings.to} sentiment",
        settings.model,
        formulas.lines,
        terms,
        tuple(map(PromptRow, rows, texts, shortened)),
        (metric, Perplexity(terms)),
        settings.seed,
        settings.samples,
        settings.temperature,
        Stop(settings.tokens(MAX_TOKENS), STOPS),
        reviews.source,
        settings.device,
        settings.dtype,
        settings.revision,
        settings.backend,
        settings.ray,
    )
    return SteeringEvaluation(experiment, paper_table, (*notes, *formulas.notes, *reviews.notes))


def beginnings(
    model: str, texts: Sequence[str], length: int = BEGINNING, revision: str | None = None
) -> list[str]:
    """The first tokens of each text, as a model's tokenizer has them; shorter texts are whole.

    Raises ModelError for a tokenizer that cannot be had.
    """
    try:
        tokenizer = read_tokenizer(POCKET if model in EMBEDDED else model, revision)
    except ModelError as error:
        raise ModelError(f"cannot load the tokenizer of {model!r}: {error}") from None
    cut = []
    for text in texts:
        tokens = tokenizer.encode(text, add_special_tokens=False)
        cut.append(text if len(tokens) <= length else str(tokenizer.decode(tokens[:length])))
    return cut
