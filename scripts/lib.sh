# Shared by the scripts beside it: finds or installs what they need.

say() { printf '%s\n' "$*" >&2; }

# need PROGRAM PACKAGE: installs PACKAGE with apt-get if PROGRAM is missing and
# we may; otherwise says what to install and fails.
need() { need_all "$1:$2"; }

# need_all PROGRAM:PACKAGE ..: the same of several, which are installed at once.
need_all() {
  local pair packages=()
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || packages+=("${pair#*:}")
  done
  [ ${#packages[@]} = 0 ] && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing ${packages[*]}"
    if [ -z "${VARVE_APT_UPDATED:-}" ]; then
      apt-get update -qq >/dev/null 2>&1 || true
      VARVE_APT_UPDATED=1
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null 2>&1 || true
  fi
  local status=0
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null 2>&1 && continue
    say "missing: ${pair%%:*}. Install the package '${pair#*:}' and run this again."
    status=1
  done
  return "$status"
}

# A Rust toolchain that can build the workspace.
need_rust() {
  # Not every CI sets it, and rustup's own script needs it.
  export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
  command -v cargo >/dev/null 2>&1 || [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
  command -v cargo >/dev/null 2>&1 && return 0
  if need rustup rustup 2>/dev/null && rustup default stable >/dev/null 2>&1; then
    command -v cargo >/dev/null 2>&1 && return 0
  fi
  say "missing: cargo. Install Rust 1.95 or later with rustup and run this again."
  return 1
}
