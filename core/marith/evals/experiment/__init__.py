"""What do all evaluations share? Formulas and prompts, their texts, what measures say of them."""
