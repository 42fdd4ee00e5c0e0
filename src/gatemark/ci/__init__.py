"""Continuous integration: workflow files to start from, and comments on pull requests.

``workflows.py`` writes a workflow file for a service, ``github.py`` posts a comment and replaces it
when it is there already. The composite action of this repository (``action.yml``) calls both.
"""
