"""A model that several processes compute together, each a part of every layer."""
