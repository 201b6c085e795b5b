"""Policies and reference models: loading, the training forward, log-probabilities of responses."""
