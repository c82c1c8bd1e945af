"""spark-submit entry point of `sparklake import`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("import")

if __name__ == "__main__":
    sys.exit(main())
