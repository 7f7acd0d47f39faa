"""How likely is each next token, to a term? The only room with models in it."""
