"""Repeatable proofs: histories, simulated schedules, a model, campaigns of faults."""
