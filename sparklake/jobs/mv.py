"""spark-submit entry point of `sparklake mv`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("mv")

if __name__ == "__main__":
    sys.exit(main())
