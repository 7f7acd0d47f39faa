"""Keys and values in segments: prefixes that several texts share, and memory taken by tokens."""
