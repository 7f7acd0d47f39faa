"""Terms that count instead of compute."""
