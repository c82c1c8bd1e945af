"""spark-submit entry point of `sparklake branch prune`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("branch", "prune")

if __name__ == "__main__":
    sys.exit(main())
