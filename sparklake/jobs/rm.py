"""spark-submit entry point of `sparklake rm`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("rm")

if __name__ == "__main__":
    sys.exit(main())
