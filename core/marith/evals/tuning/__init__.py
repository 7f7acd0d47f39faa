"""Which strengths reach a target? A search over the unknown numbers of a formula."""
