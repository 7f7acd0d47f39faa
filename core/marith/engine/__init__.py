"""Who runs when? Requests come in, the models take turns, tickets go out."""
