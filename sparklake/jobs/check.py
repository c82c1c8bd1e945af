"""spark-submit entry point of `sparklake check`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("check")

if __name__ == "__main__":
    sys.exit(main())
