"""How many tokens at a time, and which of them stand? No models and no threads."""
