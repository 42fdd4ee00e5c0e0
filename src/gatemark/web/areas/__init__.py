"""What pages and the interface share, one module per area."""
