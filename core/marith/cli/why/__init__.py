"""Why each token is there, on the terminal: `marith why`, and /why in a conversation."""
