"""spark-submit entry point of `sparklake cat`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("cat")

if __name__ == "__main__":
    sys.exit(main())
