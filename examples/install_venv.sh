#!/bin/bash
# Create a virtual environment with sparklake at a fixed path: as a bootstrap action of EMR 7, or in an
# image build.
#
#   install_venv.sh WHEELS [TARGET]
#
# WHEELS is a folder or an s3:// prefix with sparklake's wheels. TARGET is /opt/sparklake by default.
# BASE_PYTHON is the Python of the environment. The environment is isolated from the machine's packages
# and changes none of them. pyspark is not installed: spark-submit adds its own.
set -euo pipefail

wheels=$1
target=${2:-/opt/sparklake}
python=${BASE_PYTHON:-/usr/bin/python3.11}

case $wheels in
s3://*)
  folder=$(mktemp -d)
  aws s3 cp --quiet --recursive "$wheels" "$folder"
  wheels=$folder
  ;;
esac

as_root=
[ -w "$(dirname "$target")" ] || as_root=sudo
$as_root "$python" -m venv "$target"
# pip chooses the wheel with compiled kernels if it fits the machine.
chosen=$(mktemp -d)
"$target/bin/python" -m pip download --quiet --disable-pip-version-check --no-index --no-deps \
  --find-links "$wheels" --dest "$chosen" sparklake
$as_root "$target/bin/python" -m pip install --quiet --disable-pip-version-check \
  "$(echo "$chosen"/sparklake-*.whl)[s3]" 'pandas<3'
"$target/bin/sparklake" --version
