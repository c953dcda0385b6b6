"""Everything that needs a GPU, by one command: ``make gpu``."""
