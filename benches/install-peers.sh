#!/usr/bin/env bash
# Installs the tools that benchmarks compare with, as far as they can be had here; what cannot is named.
#
#   benches/install-peers.sh [NAME ...]
#
# By apt-get (as root, on Debian and its kin): rsync wrk fio nginx lighttpd. By cargo: xcp cpz.
# Benchmarks leave out what is not installed, with a word.
set -uo pipefail

wanted=${*:-rsync wrk fio nginx lighttpd xcp cpz}
missing=

from_apt() {
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        echo "$1: needs apt-get, as root"
        return 1
    fi
    # Servers are to be started by the benchmarks only.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --yes --no-install-recommends "$1" >/dev/null
}

for name in $wanted; do
    if command -v "$name" >/dev/null; then
        echo "$name: is there"
        continue
    fi
    case $name in
        rsync | wrk | fio | lighttpd) from_apt "$name" ;;
        nginx) from_apt nginx-light ;;
        xcp | cpz) cargo install --quiet --locked "$name" ;;
        *) echo "$name: not known here"; false ;;
    esac
    if command -v "$name" >/dev/null || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/$name" ]; then
        echo "$name: installed"
    else
        missing+=" $name"
    fi
done
[ -z "$missing" ] || { echo "not installed:$missing"; exit 1; }
