"""Projections of the last hidden state: sentences, states, subspaces, and the LoRA that computes the projection."""
