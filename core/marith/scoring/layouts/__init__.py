"""How a weight lies in memory."""
