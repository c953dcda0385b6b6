"""Renders cards, leaderboards and Hub metadata from manifests and results; every fact comes from these files."""
