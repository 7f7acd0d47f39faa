"""How fast? Against transformers, and with speculation against without."""
