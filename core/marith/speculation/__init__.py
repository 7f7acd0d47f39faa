"""How many tokens are drafted at a time, and which are accepted? No models, no threads.

- `auto`: how much to draft, and when not to.
- `cost_model`: what a token costs under a plan (the paper's appendix E.3).
- `execution_plan`: a formula and a plan, bound in stages.
- `verify`: which drafted tokens stand, and what replaces them.
- `window`: texts without drafts and with drafts.
"""
