"""Writing, attaching and publishing the adapters that recipes make; reading them is in :mod:`scoring.adapters`."""
