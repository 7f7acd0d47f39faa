"""Classifiers, by the trees of prefixes that they judge."""
