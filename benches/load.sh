#!/usr/bin/env bash
# `laio load` beside wrk: the same number of connections, from one processor, to the same server on another, in turns.
#
#   benches/load.sh
#
# Settings, by the environment:
#   LAIO         the laio command             (default: target/release/laio, built if it is not there)
#   SERVER       who answers: laio or nginx   (default: laio)
#   SIZES        bytes of the file asked for  (default: "1024 102400")
#   CONNECTIONS  kept open                    (default: 32)
#   DURATION     seconds of each turn         (default: 3)
#   ROUNDS       turns of each                (default: 5)
#
# Prints requests per second of both in each round, the median of the ratios of rounds, and what a request costs each
# client in processor time. The server has one worker. Needs two processors, wrk and jq.
set -euo pipefail
cd "$(dirname "$0")/.."

laio=${LAIO:-target/release/laio}
server=${SERVER:-laio}
sizes=${SIZES:-1024 102400}
connections=${CONNECTIONS:-32}
seconds=${DURATION:-3}
rounds=${ROUNDS:-5}

for need in wrk jq taskset; do
    command -v "$need" >/dev/null || { echo "$need is not there: the comparison is left out"; exit 0; }
done
[ "$(nproc)" -ge 2 ] || { echo "one processor only: the comparison is left out"; exit 0; }
if [ -z "${LAIO:-}" ] && [ ! -x "$laio" ]; then
    cargo build --release --locked --quiet --package laio-cli
fi

room=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$room"' EXIT
mkdir "$room/site"
for size in $sizes; do head -c "$size" /dev/urandom >"$room/site/$size"; done

start_laio() {
    taskset -c 0 "$laio" serve --workers 1 --listen 127.0.0.1:0 --log off --max-requests 1000000000 "$room/site" \
        2>"$room/said" &
    pid=$!
    for _ in $(seq 500); do
        url=$(grep -o 'http://[0-9.:]*' "$room/said" || true)
        [ -z "$url" ] || return 0
        sleep 0.02
    done
    echo "laio serve does not answer" >&2
    exit 1
}

start_nginx() {
    command -v nginx >/dev/null || { echo "nginx is not there: the comparison is left out"; exit 0; }
    local port=${PORT:-18321}
    cat >"$room/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; error_log stderr crit; pid $room/pid;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  client_body_temp_path $room/body; proxy_temp_path $room/proxy; fastcgi_temp_path $room/fastcgi;
  uwsgi_temp_path $room/uwsgi; scgi_temp_path $room/scgi;
  server { listen 127.0.0.1:$port; root $room/site; }
}
CONF
    taskset -c 0 nginx -p "$room" -e stderr -c "$room/nginx.conf" &
    pid=$!
    url=http://127.0.0.1:$port
    for _ in $(seq 500); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
        sleep 0.02
    done
    echo "nginx does not answer" >&2
    exit 1
}

# of_laio SIZE, of_wrk SIZE: a line "requests/s processor-us"
of_laio() {
    taskset -c 1 "$laio" load "$url/$1" --parallel "$connections" --keep-alive --seconds "$seconds" --json - 2>/dev/null |
        jq -r '"\(.rate) \(.processor * 1e6 / .rate)"'
}
of_wrk() {
    local TIMEFORMAT='%U %S'
    { time taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" "$url/$1" >"$room/wrk.out"; } 2>"$room/wrk.time"
    awk -v times="$(cat "$room/wrk.time")" '
        /requests in/ { count = $1; split($0, part, " in "); time = part[2] + 0 }
        END { split(times, used, " "); print count / time, (used[1] + used[2]) * 1e6 / count }' "$room/wrk.out"
}

"start_$server"
for size in $sizes; do
    echo "$size bytes, $connections connections, $server serves"
    : >"$room/lines"
    for round in $(seq "$rounds"); do
        # Each begins in every other round.
        if [ $((round % 2)) = 0 ]; then
            wrk=$(of_wrk "$size") laio_line=$(of_laio "$size")
        else
            laio_line=$(of_laio "$size") wrk=$(of_wrk "$size")
        fi
        echo "$laio_line $wrk" | tee -a "$room/lines" |
            awk '{ printf "  laio load %8.0f/s %6.2f us   wrk %8.0f/s %6.2f us   ratio %.3f\n", $1, $2, $3, $4, $1 / $3 }'
    done
    awk '{ print $1 / $3 }' "$room/lines" | sort -n |
        awk '{ all[NR] = $1 } END { printf "  median ratio %.3f\n", NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'
done
