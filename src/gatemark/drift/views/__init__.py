"""What tables and pages show about drift."""
