"""What all packages share: text, files, the terminal, options, numbers, pictures, verdicts and sentences."""
