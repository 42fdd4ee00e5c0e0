"""Workflow files, one per CI service."""
