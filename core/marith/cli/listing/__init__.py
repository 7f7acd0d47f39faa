"""What is there to use? Models on this machine and methods of the literature, without torch."""
