"""What keeps tests from the network, in their own process and in those that they start."""
