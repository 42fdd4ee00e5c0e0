"""The built-in adversarial probes, each with a criterion that needs no judge.

All texts are invented and harmless: what an attack wins is a canary word, a planted note, a
made-up source, a tool name or a wrong glossary entry.
"""
