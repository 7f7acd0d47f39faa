"""What to sample from: the algebra as a tree, in pure Python."""
