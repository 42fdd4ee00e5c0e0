"""One module per layout."""
