"""The synthetic grammar of the pocket model's corpus, one module per kind of text."""
