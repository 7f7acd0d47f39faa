"""Why each token is there, as plain data, tables and pages.

- `inspected_position`: one position of an inspection, and its words.
- `inspection`: `Inspection`: why each token is there.
- `inspection_html`: an inspection as HTML for notebooks.
- `widget/`: how does a notebook show why each token is there, and let people ask of one?
"""
