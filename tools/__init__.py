"""Programs that make pocket, pages and figures. They run in the repository only."""
