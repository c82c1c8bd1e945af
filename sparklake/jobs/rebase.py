"""spark-submit entry point of `sparklake rebase`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("rebase")

if __name__ == "__main__":
    sys.exit(main())
