"""What does the engine run? A text while it is generated, or a query about a given text."""
