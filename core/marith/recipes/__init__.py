"""Which formulas have authors? Each method of the literature is a line of algebra here."""

from marith.recipes.book import RECIPES
from marith.recipes.contexts import adaptive_context_aware, cocoa, context_aware, faithful_to
from marith.recipes.experts import contrastive, dexperts, genarm, proxy_tuned, unlearned
from marith.recipes.fusion import cp_fused, ensemble, in_context_mixture
from marith.recipes.gates import nudged, safe_decoded
from marith.recipes.layers import dola
from marith.recipes.prompts import cfg, cognac, negative_prompt, preadd, system_strength
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
