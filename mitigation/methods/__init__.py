"""Many methods on one model side by side: the table and its page."""
