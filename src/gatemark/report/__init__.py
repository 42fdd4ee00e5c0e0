"""Render results as JSON, Markdown, HTML, JUnit, SARIF and terminal text, with charts."""
