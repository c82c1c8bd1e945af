"""spark-submit entry point of `sparklake commit`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("commit")

if __name__ == "__main__":
    sys.exit(main())
