"""What does marith compose when no model is at hand: tiny ones. tools/pocket makes them."""
