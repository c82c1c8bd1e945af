#!/bin/bash
# Pack an environment with sparklake for --archives (EMR on EC2) and spark.archives (EMR Serverless).
#
#   pack.sh WHEELS OUTPUT.tar.gz
#
# Run it with the operating system and the Python of the cluster: for EMR 7, Amazon Linux 2023 and
# python3.11. The archive has the packages, and refers to that Python by its path.
set -euo pipefail

output=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

bash "$(dirname "$0")/../install_venv.sh" "$1" "$folder/environment"
# Newer releases of setuptools lack pkg_resources, which venv-pack needs.
"$folder/environment/bin/python" -m pip install --quiet --disable-pip-version-check \
  venv-pack 'setuptools<80'
"$folder/environment/bin/venv-pack" --quiet --force -p "$folder/environment" -o "$output"
