"""spark-submit entry point of `sparklake write`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("write")

if __name__ == "__main__":
    sys.exit(main())
