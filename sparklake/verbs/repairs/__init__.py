"""Repairs: restore lost or damaged tree files, objects and refs from other copies."""
