"""What does marith compose when no model is at hand: a tiny one, its corpus and its training."""
