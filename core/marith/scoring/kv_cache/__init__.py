"""What a lane has read: keys and values, by row."""
