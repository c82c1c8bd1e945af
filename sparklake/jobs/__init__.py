"""Entry points for spark-submit: one command each, with the command's own grammar."""
