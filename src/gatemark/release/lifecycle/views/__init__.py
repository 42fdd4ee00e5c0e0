"""What tables and pages show about assets."""
