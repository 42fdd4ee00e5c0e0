"""Run logs of summarising agents: traces, replay, concepts and metrics."""
