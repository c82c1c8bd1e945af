"""spark-submit entry point of `sparklake writes`."""

from __future__ import annotations

import sys

from sparklake.jobs.runner import job

main = job("writes")

if __name__ == "__main__":
    sys.exit(main())
