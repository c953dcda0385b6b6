"""How words keep company with gendered words in a corpus, and what that says of a sentence."""
