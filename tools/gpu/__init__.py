"""Measure formulas on a GPU, and write the figures into docs/reference/performance.md.

- `measurements`: steps, long prompts, graphs alone, and transformers' `generate` beside them.
- `section`: the figures as tables, and as a part of a page.
"""
