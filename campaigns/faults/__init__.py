"""Campaigns: break a lake in many rounds, and check it after each."""
