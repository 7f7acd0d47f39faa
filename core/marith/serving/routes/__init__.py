"""What each path answers."""
