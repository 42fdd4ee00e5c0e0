"""HTML pages: one module of routes per area."""
