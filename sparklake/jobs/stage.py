"""spark-submit entry point of `sparklake stage`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("stage")

if __name__ == "__main__":
    sys.exit(main())
