"""How much does speculation save? The paper's table and figure, and what "auto" makes of it."""
