"""Speed and memory, each benchmark one module whose figures are committed as JSON with the machine in them."""
