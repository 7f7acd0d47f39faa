"""Build the three distributions, and test them in clean environments (`make dist-test`)."""
