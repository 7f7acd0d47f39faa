"""How does a formula do in lm-evaluation-harness? `marith` as one of its models."""

from marith.evals.harness.model import MarithLM

__all__ = ["MarithLM"]
