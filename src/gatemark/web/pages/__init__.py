"""What people see: one module of routes per area."""
