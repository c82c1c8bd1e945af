"""Entry points for spark-submit, one verb each; each prints JSON and exits as the command does."""
