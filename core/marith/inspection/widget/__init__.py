"""How does a notebook show why each token is there, and let people ask of one?

- `inspection_widget`: the widget of notebooks.
- `page_parts`: the strip and card of the page, as one module and one style.
"""
