"""spark-submit entry point of `sparklake stat`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("stat")

if __name__ == "__main__":
    sys.exit(main())
