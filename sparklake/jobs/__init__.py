"""The entry point for spark-submit: all commands, in the submitted session."""
