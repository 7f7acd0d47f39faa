"""What is asked, and what comes back? Plain data, without torch."""
