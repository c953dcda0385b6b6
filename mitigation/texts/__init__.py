"""Text that recipes learn from: words of groups, corpora, and pairs of one's own."""
