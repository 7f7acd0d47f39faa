"""Test `marith serve` with clients that others have written (`make clients`)."""
