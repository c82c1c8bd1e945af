"""Run hooks before and after a ref moves."""
