"""Facts become documents: cards are rendered from manifests and write no fact of their own."""
