"""Show in a notebook why each token is there, and let readers choose a token.

- `inspection_widget`: the notebook widget.
"""
