"""From a name to a model in memory."""
