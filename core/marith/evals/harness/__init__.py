"""How does a formula do in lm-evaluation-harness? `marith` as one of its models."""

from marith.errors import missing_extra

try:
    from marith.evals.harness.model import MarithLM
except ModuleNotFoundError as error:
    raise missing_extra(error, "lm_eval", __name__, "harness") from None

__all__ = ["MarithLM"]
