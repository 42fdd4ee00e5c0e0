"""What must not stand in evidence: personal data, secrets, private places. Never what was found."""
