"""Results as words and pictures: JSON, Markdown, HTML, JUnit."""
