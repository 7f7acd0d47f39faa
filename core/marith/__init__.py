"""Language models composed by arithmetic: `M - 0.96*union(toxic, M) + 0.04*C`, sampled exactly.

The algebra is imported at once; everything that needs torch is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import marith.recipes  # noqa: F401 (registers the recipes)
from marith.errors import (
    Busy,
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    FormulaError,
    MarithError,
    ModelError,
    RequestError,
)
from marith.formula.meaning.formula_queries import terms_of, without_template
from marith.formula.text.calls import define
from marith.formula.text.explaining import Explanation, explain
from marith.formula.text.trust import parse
from marith.formula.tree.factors import maximum, minimum, sigmoid
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import (
    agreed,
    intersection,
    mixture,
    posterior,
    relu,
    self_debias,
    supersede,
    union,
    unscaled,
    where,
)
from marith.formula.tree.signals import (
    balance,
    calling,
    class_prob,
    decay,
    entropy,
    first,
    indicator,
    jsd,
    margin,
    max_prob,
    position,
    reasoning,
    renyi,
)
from marith.formula.tree.terms import Classifier, NGram, Prompted, Uniform
from marith.openmp import limit_spinning
from marith.recipes.book import DescribedRecipe, described_recipes, own_methods

if TYPE_CHECKING:
    from marith import models  # noqa: F401 (for type checkers; see `__getattr__`)
    from marith.engine.engine import Engine
    from marith.engine.ticket import Ticket
    from marith.inspection.calls import (
        inspect,
        rendered_prompts,
        submit_inspection,
        submit_what_if,
        submit_with_inspection,
        what_if,
    )
    from marith.inspection.formula_numbers import FormulaNumber, NumberedFormula
    from marith.inspection.inspection import Inspection
    from marith.inspection.what_if import Redrawn, WhatIf
    from marith.options.options import Options
    from marith.options.persona_file import PersonaFile, load_file
    from marith.request.ban import Ban
    from marith.request.completion import (
        CallChunk,
        Chunk,
        Completion,
        Ranking,
        Stats,
        TermStats,
        TokenLogprob,
        ToolCall,
        TopLogprob,
        Usage,
    )
    from marith.request.forms.grammar import Grammar
    from marith.request.forms.tools import Tools
    from marith.request.limits import EngineStatus
    from marith.request.plan import Plan
    from marith.request.request import Request
    from marith.request.sampling import Sampling
    from marith.request.stop import Stop
    from marith.request.visible_text import escape_control_chars
    from marith.scoring.free_memory import free_memory

__version__ = "0.1.0"

# Torch's OpenMP reads the environment once, so this must run before anything imports torch.
limit_spinning()

_LATER = {
    "Ban": "marith.request.ban",
    "Grammar": "marith.request.forms.grammar",
    "free_memory": "marith.scoring.free_memory",
    "escape_control_chars": "marith.request.visible_text",
    "Inspection": "marith.inspection.inspection",
    "Sampling": "marith.request.sampling",
    "Stop": "marith.request.stop",
    "Engine": "marith.engine.engine",
    "FormulaNumber": "marith.inspection.formula_numbers",
    "NumberedFormula": "marith.inspection.formula_numbers",
    "Redrawn": "marith.inspection.what_if",
    "WhatIf": "marith.inspection.what_if",
    "EngineStatus": "marith.request.limits",
    **dict.fromkeys(
        (
            "inspect",
            "rendered_prompts",
            "submit_with_inspection",
            "submit_inspection",
            "submit_what_if",
            "what_if",
        ),
        "marith.inspection.calls",
    ),
    "Options": "marith.options.options",
    **dict.fromkeys(("PersonaFile", "load_file"), "marith.options.persona_file"),
    "Plan": "marith.request.plan",
    "Request": "marith.request.request",
    "Ticket": "marith.engine.ticket",
    "Tools": "marith.request.forms.tools",
    **dict.fromkeys(
        (
            "TopLogprob",
            "CallChunk",
            "Ranking",
            "Chunk",
            "Completion",
            "Stats",
            "TermStats",
            "TokenLogprob",
            "ToolCall",
            "Usage",
        ),
        "marith.request.completion",
    ),
}

__all__ = [
    "Ban",
    "Busy",
    "CallChunk",
    "Chunk",
    "Classifier",
    "Completion",
    "ContextOverflow",
    "DeadlineExceeded",
    "DescribedRecipe",
    "Engine",
    "EngineClosed",
    "EngineStatus",
    "Explanation",
    "Formula",
    "FormulaError",
    "FormulaNumber",
    "Grammar",
    "Inspection",
    "MarithError",
    "ModelError",
    "NGram",
    "NumberedFormula",
    "Options",
    "PersonaFile",
    "Plan",
    "Prompted",
    "Ranking",
    "Redrawn",
    "Request",
    "RequestError",
    "Sampling",
    "Stats",
    "Stop",
    "TermStats",
    "Ticket",
    "TokenLogprob",
    "ToolCall",
    "Tools",
    "TopLogprob",
    "Uniform",
    "Usage",
    "WhatIf",
    "agreed",
    "balance",
    "calling",
    "class_prob",
    "decay",
    "define",
    "described_recipes",
    "entropy",
    "escape_control_chars",
    "explain",
    "first",
    "free_memory",
    "indicator",
    "inspect",
    "intersection",
    "jsd",
    "load_file",
    "margin",
    "max_prob",
    "maximum",
    "minimum",
    "mixture",
    "own_methods",
    "parse",
    "position",
    "posterior",
    "reasoning",
    "relu",
    "rendered_prompts",
    "renyi",
    "self_debias",
    "sigmoid",
    "submit_inspection",
    "submit_what_if",
    "submit_with_inspection",
    "supersede",
    "terms_of",
    "union",
    "unscaled",
    "what_if",
    "where",
    "without_template",
]


def __getattr__(name: str) -> Any:
    """Import a name that needs torch, or `models`, on first use."""
    if name == "models":
        return import_module("marith.models")
    if name not in _LATER:
        raise AttributeError(f"module 'marith' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
