"""How many tokens are drafted at a time, and which are accepted? No models, no threads."""
