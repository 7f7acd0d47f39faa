"""Make the small models that ship in `marith.pocket`: their corpus and their training."""
