"""What does the paper evaluate? Its tables, its curves and its examples."""
