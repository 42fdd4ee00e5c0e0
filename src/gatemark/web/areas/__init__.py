"""Functions and views that pages and API share, one module per area."""
