"""Database stores of reviews and labels."""
