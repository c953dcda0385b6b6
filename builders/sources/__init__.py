"""Upstream sources: the catalogue of pinned files, fetching with verification, archives."""
