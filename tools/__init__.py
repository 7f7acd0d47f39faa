"""Programs that make pocket, pages and figures. They run only in the repository."""
