"""The files that ``gatemark init`` writes."""
