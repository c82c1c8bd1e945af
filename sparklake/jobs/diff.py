"""spark-submit entry point of `sparklake diff`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("diff")

if __name__ == "__main__":
    sys.exit(main())
