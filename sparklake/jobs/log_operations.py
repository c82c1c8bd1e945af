"""spark-submit entry point of `sparklake op log`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("op", "log")

if __name__ == "__main__":
    sys.exit(main())
