"""Clients of other makers, asked to use `marith serve` (`make clients`)."""
