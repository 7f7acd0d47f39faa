"""Whether cached passes return what the uncached model does, asked when a model is loaded."""
