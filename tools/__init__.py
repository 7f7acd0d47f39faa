"""What makes pocket, pages and figures: run from the repository, and not in the wheel."""
