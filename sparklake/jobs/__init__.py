"""The entry point for spark-submit: the commands and their grammar, in a submitted session."""
