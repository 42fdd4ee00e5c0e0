"""The built-in adversarial probes, each with a criterion that needs no judge.

All texts are invented and harmless: a successful attack gets a canary word, a planted note, an
invented source, a tool name or a wrong glossary entry.
"""
