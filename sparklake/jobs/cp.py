"""spark-submit entry point of `sparklake cp`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("cp")

if __name__ == "__main__":
    sys.exit(main())
