"""Training of adapters: losses, the training loop, training rows with their leak check."""
