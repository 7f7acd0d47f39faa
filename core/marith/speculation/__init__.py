"""How many tokens are drafted at a time, and which are accepted? No models, no threads.

- `auto`: decides how much to draft, and when not to draft.
- `cost_model`: the cost of a token under a plan (the paper's appendix E.3).
- `drafts`: the drafts of one text, and the tokens that proposers expect next.
- `execution_plan`: binds a formula and a plan.
- `stages`: which terms verify together, and in which order they verify a text.
- `verify`: accepts or rejects drafted tokens, and draws their replacements.
- `window`: texts with drafts and without drafts.
"""
