"""Database stores of points, memories, episodes and alerts."""
