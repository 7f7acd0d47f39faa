"""How much does speculation save? The paper's table and figure, and what "auto" makes of it.

- `savings`: A run of `marith eval speed`: the paper's table and its figure, over one engine.
- `savings_report`: show the cost of a token in each setup beside the paper's: tables.
- `setups`: define the setups that are measured: the paper's formulas, and how each is drafted.
"""
