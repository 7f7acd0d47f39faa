"""Write the pages of docs/reference that come from code: signatures, types, docstrings, help."""
