"""Which formulas have authors? Each method of the literature is a line of algebra here."""

from marith.recipes.contexts import context_aware, faithful_to

__all__ = ["context_aware", "faithful_to"]
