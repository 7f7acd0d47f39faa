"""How is a result shown? Tables, reports and progress, the same for every evaluation."""
