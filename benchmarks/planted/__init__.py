"""A stereotype of known size, planted into the bundled models, and what each recipe removes of it."""
