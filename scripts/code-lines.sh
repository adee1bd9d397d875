#!/bin/sh
# Lines of code above and below the seam (Layout of varve-fs), as the thesis counts
# them (§7.2, §6.3.1): without blank lines, comments and tests.
#
#   scripts/code-lines.sh [DIRECTORY OR FILE ...]
#
# With arguments, the lines of each of these.
set -eu
cd "$(dirname "$0")/.."

# count PATH ...: lines of code of all .rs files there. Tests are files and
# directories of that name, what only tests and fuzzing see (planted.rs, fuzzing.rs),
# and modules behind `#[cfg(test)]`, which end a file.
count() {
  find "$@" -name '*.rs' ! -name 'tests.rs' ! -path '*/tests/*' ! -name 'planted.rs' \
    ! -name 'fuzzing.rs' -print0 | sort -z | xargs -0 awk '
      FNR == 1 { over = 0; test = 0 }
      over || /^[ \t]*$/ || /^[ \t]*\/\// { next }
      /^ *#\[cfg\((all\()?test/ { test = 1; next }
      test && /^ *#\[/ { next }
      test { test = 0; if (/^ *(pub[^ ]* )?mod [a-z_]+;/) next; if (/^ *mod /) { over = 1; next } }
      { lines++ }
      END { print lines + 0 }'
}

# row NAME PATH ...
row() {
  name=$1
  shift
  printf '%-52s %6d\n' "$name" "$(count "$@")"
}

if [ $# -gt 0 ]; then
  for path in "$@"; do row "$path" "$path"; done
  exit
fi

# src NAME: the sources of the crate varve-NAME.
src() {
  case $1 in
    lfs) echo crates/core/log/src ;;
    ffs) echo crates/layouts/in-place/src ;;
    vlog) echo crates/layouts/virtual-log/src ;;
    vlfs) echo crates/layouts/vlfs/src ;;
    *) echo "crates/core/$1/src" ;;
  esac
}
# All of a crate but these of its parts.
less() { echo $(($(count "$1") - $(shift && count "$@"))); }
printf '%-52s %6d\n' 'shared: file system above the seam (varve-fs)' \
  "$(less "$(src fs)" "$(src fs)/memory_layout" "$(src fs)/memory_layout.rs" "$(src fs)/transactions" "$(src fs)/uses" "$(src fs)/isolation")"
row '        transactions above it' "$(src fs)/transactions" "$(src fs)/uses" "$(src fs)/isolation"
row '        bytes that layouts share (varve-format)' "$(src format)"
printf '%-52s %6d\n' 'log: layout (varve-lfs)' \
  "$(less "$(src lfs)" "$(src lfs)/mechanism" "$(src lfs)/relocate" "$(src lfs)/cleaner" "$(src lfs)/policy" "$(src lfs)/shipping" "$(src lfs)/resize" "$(src lfs)/spills.rs" "$(src lfs)/snapshots.rs")"
row '     cleaner and its policies' "$(src lfs)/mechanism" "$(src lfs)/relocate" "$(src lfs)/cleaner" "$(src lfs)/policy"
row '     snapshots, spills, shipping, resizing' "$(src lfs)/shipping" "$(src lfs)/resize" "$(src lfs)/spills.rs" "$(src lfs)/snapshots.rs"
row '     check, repair, verification (varve-fsck)' "$(src fsck)"
printf '%-52s %6d\n' 'update in place: layout (varve-ffs)' \
  "$(less "$(src ffs)" "$(src ffs)/allocate" "$(src ffs)/journal.rs" "$(src ffs)/replay.rs" "$(src ffs)/repair" "$(src ffs)/check.rs" "$(src ffs)/fsck.rs")"
row '     policies of allocation' "$(src ffs)/allocate"
row '     journal and its replay' "$(src ffs)/journal.rs" "$(src ffs)/replay.rs"
row '     check and repair' "$(src ffs)/repair" "$(src ffs)/check.rs" "$(src ffs)/fsck.rs"
row 'virtual log: layout (varve-vlfs)' "$(src vlfs)"
row '     eager writing and map (varve-vlog)' "$(src vlog)"
