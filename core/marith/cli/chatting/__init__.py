"""A conversation on the terminal: `marith chat`."""
