"""`marith` as a model of lm-evaluation-harness.

- `command_line`: run the harness's own command line, with `marith` as the default model.
- `contexts`: turn the harness's contexts into requests that fit: raw text, windows or a chat.
- `model`: `marith` as a model of lm-evaluation-harness: log-likelihoods and texts of a formula.
"""

from marith.errors import missing_extra

try:
    from marith.evals.harness.model import MarithLM
except ModuleNotFoundError as error:
    raise missing_extra(error, "lm_eval", __name__, "harness") from None

__all__ = ["MarithLM"]
