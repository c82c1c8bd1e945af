"""spark-submit entry point of `sparklake hooks runs`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("hooks", "runs")

if __name__ == "__main__":
    sys.exit(main())
