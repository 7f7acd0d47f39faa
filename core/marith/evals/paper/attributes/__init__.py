"""How finely is an attribute controlled? The paper's six curves over two formulas."""
