"""Classifiers that guide: labels for many texts that begin alike."""
