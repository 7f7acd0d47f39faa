"""States of texts, for recurrent and hybrid models, whose state cannot be truncated.

- `state_runner`: runs a model with a state for each text.
- `states`: states of texts, alone and joined.
"""
