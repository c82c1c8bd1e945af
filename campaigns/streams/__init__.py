"""Kills of streams into tables."""
