"""A GGUF file as a checkpoint."""
