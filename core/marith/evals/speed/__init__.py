"""Measure the savings of speculation: the paper's table and figure.

- `savings`: a run of `marith eval speed` over one engine.
- `savings_report`: the cost of a token in each setup, beside the paper's: tables and a figure.
- `setups`: the setups that are measured: the paper's formulas, and their drafts.
"""
