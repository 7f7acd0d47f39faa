"""Measure the savings of speculation: the paper's table and figure.

- `savings`: run `marith eval speed`: measure all setups on one engine.
- `savings_report`: the cost per token of each setup, beside the paper's: tables and a figure.
- `setups`: the setups that are measured: the paper's formulas, and how they are drafted.
"""
