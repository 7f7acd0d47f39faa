"""How does a notebook show why each token is there, and let people ask of one?

- `inspection_widget`: the widget of notebooks.
"""
