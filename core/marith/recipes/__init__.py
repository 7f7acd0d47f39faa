"""Published methods as formulas: each method is a line of algebra.

- `book`: registers the recipes by name, and describes them.
- `contexts`: has the recipes that make an answer follow retrieved text.
- `experts`: has the recipes with several models: small models steer a large model, or models mix.
- `prompts`: has the recipes that need only one model, and recipes that switch models.
- `steering`: has the recipes in which classifiers and rewards guide a model.
"""

from marith.recipes.book import RECIPES
from marith.recipes.contexts import adaptive_context_aware, cocoa, context_aware, faithful_to
from marith.recipes.experts import (
    contrastive,
    cp_fused,
    dexperts,
    ensemble,
    genarm,
    in_context_mixture,
    proxy_tuned,
    unlearned,
)
from marith.recipes.prompts import (
    cfg,
    cognac,
    dola,
    negative_prompt,
    nudged,
    preadd,
    safe_decoded,
    system_strength,
)
from marith.recipes.steering import fudge, gedi, reward_guided, self_debiased, union_detox

__all__ = [
    "RECIPES",
    "adaptive_context_aware",
    "cfg",
    "cocoa",
    "cognac",
    "context_aware",
    "contrastive",
    "cp_fused",
    "dexperts",
    "dola",
    "ensemble",
    "faithful_to",
    "fudge",
    "gedi",
    "genarm",
    "in_context_mixture",
    "negative_prompt",
    "nudged",
    "preadd",
    "proxy_tuned",
    "reward_guided",
    "safe_decoded",
    "self_debiased",
    "system_strength",
    "union_detox",
    "unlearned",
]
