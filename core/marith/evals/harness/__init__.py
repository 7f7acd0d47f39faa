"""`marith` as a model of lm-evaluation-harness.

- `command_line`: run the harness's own command line, with `marith` as the default model.
- `contexts`: turn the harness's contexts (raw text, windows of a text, or a chat) into requests.
- `model`: `marith` as a model of lm-evaluation-harness: log-likelihoods and texts of a formula.
"""

from marith.errors import missing_extra

try:
    from marith.evals.harness.model import MarithLM
except ModuleNotFoundError as error:
    raise missing_extra(error, "lm_eval", __name__, "harness") from None

__all__ = ["MarithLM"]
