"""Proofs that run at any time: histories, simulated schedules, a model, campaigns of faults."""
