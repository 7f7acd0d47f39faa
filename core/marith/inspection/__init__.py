"""Explain why each token was drawn, and which tokens other numbers in the formula would give.

- `calls`: `inspect`, `rendered_prompts`, `what_if` and `submit_with_inspection`.
- `contributions`: what each summand adds to a token's log-odds.
- `formula_numbers`: the numbers in a formula, and values to try instead.
- `inspected_position`: one position of an inspection. Plain data, without torch.
- `inspecting`: the job that inspects a text in one pass.
- `inspection`: `Inspection`: why each token is there. Plain data, without torch.
- `inspection_html`: an inspection as HTML for notebooks.
- `inspection_words`: an inspection as a table of texts.
- `position_measures`: ranks, entropies and contributions of positions, as plain data.
- `what_if`: the tokens that other numbers of the formula would have drawn.
- `widget/`: an inspection as a notebook widget.
"""
