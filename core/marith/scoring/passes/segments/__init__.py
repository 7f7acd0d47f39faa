"""Keys and values as segments: prefixes that several texts read, held once."""
