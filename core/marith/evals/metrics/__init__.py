"""What is measured of texts? A number for each, and the statistics of many."""
