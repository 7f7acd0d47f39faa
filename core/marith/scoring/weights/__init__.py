"""Checkpoints, GGUF files and adapters: files → a loaded model."""
