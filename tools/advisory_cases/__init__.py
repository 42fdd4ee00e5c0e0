"""What the built-in fixtures are about: one module of cases per lane."""
