"""Several models with one call: their order, their servers, and where their results land."""
