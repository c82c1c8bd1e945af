"""Seeded schedules of the real verbs over simulated ports."""
