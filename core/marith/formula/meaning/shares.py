"""The shares of terms in a sum: its factors, divided by their sum."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from marith.formula.tree.nodes import Formula, Scaled, Sum
from marith.formula.tree.terms import Classifier, NGram, Prompted, Term, Uniform

# The kinds of terms whose value is their row, with their weights. A kind that an application
# derives from them may have another value.
_WEIGHTS: Mapping[type[Term], float] = {Prompted: 1.0, NGram: 1.0, Uniform: 1.0, Classifier: 0.0}


# A formula is composed at every token, so its shares are computed only once.
@lru_cache(maxsize=64)
def shares_of(formula: Formula) -> Mapping[Term, float] | None:
    """Return the share fᵢ / Σ fᵢ of each term in Σ fᵢ log Qᵢ (theorem 1).

    A classifier has the weight 0, so its factor does not count in the denominator. Return None for
    a formula that is not a sum of terms with numbers as factors.
    """
    factors: dict[Term, float] = {}
    weight, waiting = 0.0, [(1.0, formula)]
    while waiting:
        factor, node = waiting.pop()
        match node:
            case Sum(members):
                waiting += [(factor, member) for member in reversed(members)]
            case Scaled(0.0, _):
                # A node that is multiplied by 0 is not computed, so it forbids no token.
                continue
            case Scaled(float(own), of):
                waiting.append((factor * own, of))
            case Term() if (own_weight := _WEIGHTS.get(type(node))) is not None:
                factors[node] = factors.get(node, 0.0) + factor
                weight += factor * own_weight
            case _:
                return None
    return {term: factor / weight for term, factor in factors.items()} if weight > 0 else None
