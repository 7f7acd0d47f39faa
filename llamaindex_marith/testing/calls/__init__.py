"""What every call must keep: its words, its parts, its events, its usage, its end."""
