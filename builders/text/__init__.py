"""Text rules: gendered words, neutrality, number agreement, leakage between splits."""
