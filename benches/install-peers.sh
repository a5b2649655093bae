#!/usr/bin/env bash
# Installs the tools with which benchmarks compare laio, as far as possible, and names the others.
#
#   benches/install-peers.sh [NAME ...]
#
# By apt-get (as root, on Debian and derivatives): rsync wrk fio nginx lighttpd. By cargo: xcp cpz. Benchmarks
# leave out missing tools, with a note.
set -uo pipefail

wanted=${*:-rsync wrk fio nginx lighttpd xcp cpz}
missing=

from_apt() {
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        echo "$1: needs apt-get, as root"
        return 1
    fi
    # Only the benchmarks start the servers.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --yes --no-install-recommends "$1" >/dev/null
}

for name in $wanted; do
    if command -v "$name" >/dev/null; then
        echo "$name: is installed"
        continue
    fi
    case $name in
        rsync | wrk | fio | lighttpd) from_apt "$name" ;;
        nginx) from_apt nginx-light ;;
        xcp | cpz) cargo install --quiet --locked "$name" ;;
        *) echo "$name: unknown"; false ;;
    esac
    if command -v "$name" >/dev/null || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/$name" ]; then
        echo "$name: installed"
    else
        missing+=" $name"
    fi
done
[ -z "$missing" ] || { echo "not installed:$missing"; exit 1; }
