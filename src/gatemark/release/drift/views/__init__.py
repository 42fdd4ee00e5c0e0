"""Views of drift: page, terminal, Prometheus and OpenTelemetry."""
