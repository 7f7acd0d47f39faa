"""What is a classifier trained on? Labelled texts: read, split, encoded, cut to prefixes."""
