#!/bin/bash
# Cluster-scoped init script of Databricks: installs sparklake on each node, from wheels in a volume.
#
# WHEELS, an environment variable of the cluster, is the folder with the wheels.
set -euo pipefail

wheels=${WHEELS:-/Volumes/main/default/wheels}
python=${CLUSTER_PYTHON:-/databricks/python/bin/python}

packages() {
  "$python" -m pip list --format=freeze --disable-pip-version-check | sort
}

before=$(packages)
mapfile -t kernels < <(find "$wheels" -name 'sparklake_kernels-*.whl')
"$python" -m pip install --quiet --disable-pip-version-check \
  "$(find "$wheels" -name 'sparklake-*.whl')[s3]" "${kernels[@]}"

# A cluster that lost a package of its runtime must not start.
changed=$(comm -23 <(echo "$before") <(packages))
if [ -n "$changed" ]; then
  echo "sparklake replaced packages of the runtime:" $changed >&2
  exit 1
fi
"$(dirname "$python")/sparklake" --version
