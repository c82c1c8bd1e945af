"""spark-submit entry point of `sparklake status`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("status")

if __name__ == "__main__":
    sys.exit(main())
