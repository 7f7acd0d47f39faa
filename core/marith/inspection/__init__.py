"""Why is this token there, and what else would have been?

- `calls`: `inspect`, `readings`, `what_if` and `submit_inspected`: an engine's answers, explained.
- `contributions`: what each summand adds to a token's log-odds.
- `formula_numbers`: the numbers in a formula, and values to try instead.
- `inspecting`: the job that inspects a text in one pass.
- `position_measures`: ranks, entropies and contributions of positions, as plain data.
- `what_if`: which tokens other numbers of the formula would have drawn.
"""
