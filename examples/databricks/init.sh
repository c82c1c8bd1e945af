#!/bin/bash
# Cluster-scoped init script for Databricks: install sparklake on each node from wheels in a volume.
#
# WHEELS, an environment variable of the cluster, is the folder with the wheels.
set -euo pipefail

wheels=${WHEELS:-/Volumes/main/default/wheels}
python=${CLUSTER_PYTHON:-/databricks/python/bin/python}

packages() {
  "$python" -m pip list --format=freeze --disable-pip-version-check | sort
}

before=$(packages)
# pip chooses the wheel with compiled kernels if it fits the machine.
chosen=$(mktemp -d)
"$python" -m pip download --quiet --disable-pip-version-check --no-index --no-deps \
  --find-links "$wheels" --dest "$chosen" sparklake
"$python" -m pip install --quiet --disable-pip-version-check "$(echo "$chosen"/sparklake-*.whl)[s3]"

# A cluster that lost a package of its runtime must not start.
changed=$(comm -23 <(echo "$before") <(packages))
if [ -n "$changed" ]; then
  echo "sparklake replaced packages of the runtime:" $changed >&2
  exit 1
fi
"$(dirname "$python")/sparklake" --version
