"""spark-submit entry point of `sparklake tag list`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("tag", "list")

if __name__ == "__main__":
    sys.exit(main())
