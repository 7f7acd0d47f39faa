"""What is compared beside the table: "auto" with no drafts."""

from __future__ import annotations

from dataclasses import replace

from marith.evals.speed.speculation.drafting_setups import DraftingSetup
from marith.evals.speed.speculation.paper_table import PLAIN
from marith.evals.speed.speculation.speed_questions import F1
from marith.evals.system_prompts import TOXIC
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Classifier, Prompted

AUTO = "auto"
F1_TEXT = " + ".join(f"{weight}*{name}" for name, weight in F1.items())
EXTRA: Terms = {
    "toxic": TOXIC,
    "C": Classifier("pocket-toxicity", label="civil"),
    "small": Prompted(model="pocket-draft"),
}


def against_none(terms: Terms, pocket: bool) -> dict[str, tuple[DraftingSetup, DraftingSetup]]:
    """Formulas of all acceptances, each without drafts and with those that "auto" chooses.

    Nothing is seeded, as in use: the same seed would keep the same text. A small model drafts
    only for `pocket`, whose vocabulary it has.
    """
    formulas = {
        "M": 1.0,
        "2*formal - M": 1.0,
        "M - 0.96*union(toxic, M)": 1.0,
        "M - 0.96*union(toxic, M) + 0.04*C": 1.0,
        "supersede(A2, M)": 1.0,
        f"supersede(A5, M + {F1_TEXT})": 1.0,
        "supersede(small, M + 0.5*formal)": 1.0,
        "supersede(A2, M + 0.5*angry)": 4.0,
        "(M + 0.5*easy).top_k(20)": 1.0,
        "intersection(M, sports) + happy": 0.3,
    }
    if not pocket:
        del formulas["supersede(small, M + 0.5*formal)"]
    pairs = {}
    for formula, temperature in formulas.items():
        plain = DraftingSetup(PLAIN, formula, {**terms, **EXTRA}, None, temperature, seeded=False)
        name = formula if temperature == 1 else f"{formula} at T = {temperature:g}"
        pairs[name] = plain, replace(plain, name=AUTO, speculation="auto", warming=1000)
    return pairs
