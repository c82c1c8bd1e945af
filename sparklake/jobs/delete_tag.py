"""spark-submit entry point of `sparklake tag delete`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("tag", "delete")

if __name__ == "__main__":
    sys.exit(main())
