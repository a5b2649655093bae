#!/usr/bin/env bash
# Installs, on Debian and derivatives, the programs under which the tests of `laio cp --work` run if
# installed: GNU parallel and Open MPI's mpirun. Needs root.
set -euo pipefail

packages=(parallel openmpi-bin rsync)
command -v apt-get >/dev/null || { echo "there is no apt-get here; install by hand: ${packages[*]}" >&2; exit 1; }
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
