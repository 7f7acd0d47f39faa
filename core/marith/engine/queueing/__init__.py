"""Requests that wait, and when they run."""
