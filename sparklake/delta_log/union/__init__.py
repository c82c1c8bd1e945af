"""The union of one Delta table's logs on three sides.

All functions are pure, on parsed commits.
"""
