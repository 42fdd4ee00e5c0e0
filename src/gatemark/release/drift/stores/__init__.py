"""Database stores of points, episodes and acts."""
