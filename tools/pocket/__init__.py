"""How the small models that ship in `marith.pocket` are made: their corpus and their training."""
