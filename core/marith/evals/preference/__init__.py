"""Whose texts are better? A chat model compares them, two at a time, as the paper's GPT-4 did."""
