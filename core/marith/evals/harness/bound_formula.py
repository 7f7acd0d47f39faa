"""The formula that the harness measures, as it reads chats and as it reads raw text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marith.formula.meaning.analysis import leaves
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.text.files import load_file
from marith.formula.text.term_data import Terms, read_terms
from marith.formula.tree.node import rebuilt
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, Likelihood, Prompted
from marith.scoring.checkpoints.locate import context_length_of, locate


@dataclass(frozen=True, slots=True)
class BoundFormula:
    """A model, and the formula over it with its names bound: `chat` reads messages, `raw` text."""

    model: str
    chat: Formula
    raw: Formula

    @classmethod
    def of(
        cls,
        model: str | None,
        formula: str,
        terms: Terms | None,
        file: str | Path | None,
    ) -> BoundFormula:
        """A formula, or the name of one in `file`, whose terms and model it then has too.

        What is given beside the file stays. Raises FormulaError or ModelError.
        """
        all_terms = read_terms(terms)
        chosen: str | Formula = formula
        if file is not None:
            opened = load_file(file)
            all_terms = {**opened.terms, **all_terms}
            chosen = opened.formulas.get(formula, formula)
            model = model or opened.options.get("model")
        parsed = parse(chosen)
        bound = check(parsed, resolve(all_terms))
        name = model or "pocket"
        locate(name)
        return cls(name, bound, _without_chat_template(bound))

    @property
    def systems(self) -> list[str]:
        """The system prompts of its terms."""
        return [term.system for term in leaves(self.raw) if isinstance(term, Prompted)]

    def context_length(self, base: int) -> int:
        """How many tokens all of its models read, where the base model reads `base`."""
        named = [t.model for t in leaves(self.raw) if isinstance(t, Prompted) and t.model]
        return min([base, *(size for size in map(context_length_of, named) if size)])


def _without_chat_template(node: Any) -> Any:
    """The formula with no chat template for raw text, unless a term asks for one."""
    match node:
        case Prompted(template=None):
            return replace(node, template="plain")
        case Classifier(guide=Formula() as guide):
            return replace(node, guide=_without_chat_template(guide))
        case Likelihood(of=of):
            return replace(node, of=_without_chat_template(of))
    return rebuilt(node, _without_chat_template)
