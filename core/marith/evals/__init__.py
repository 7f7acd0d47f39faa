"""How well does a formula do? Attributes and perplexity of what it says."""
