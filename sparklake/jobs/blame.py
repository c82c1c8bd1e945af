"""spark-submit entry point of `sparklake blame`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("blame")

if __name__ == "__main__":
    sys.exit(main())
