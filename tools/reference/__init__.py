"""Write the pages of docs/reference that follow from code: signatures, types, docstrings, help."""
