"""Repairs: restore lost or damaged tables, objects and refs from other copies."""
