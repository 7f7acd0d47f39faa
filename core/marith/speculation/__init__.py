"""Choose how many tokens are drafted, and accept or replace them. No models, no threads.

- `auto`: chooses how many tokens each text drafts, or that it drafts none.
- `cost_model`: the cost of a token under a plan (the paper's appendix E.3).
- `drafts`: the drafts of one text, and the tokens that proposers expect next.
- `execution_plan`: binds a formula and a plan.
- `stages`: which terms verify together, and in which order they verify a text.
- `verify`: accepts or rejects drafted tokens, and draws their replacements.
- `window`: texts with drafts and without drafts.
"""
