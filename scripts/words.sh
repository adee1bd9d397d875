#!/usr/bin/env bash
# Counts words that a stranger does not understand, in comments and documents, and fails
# where a count has grown: actors without a name (whoever, nobody), and words that the
# project has used for several things each (room, turn, way). CONTRIBUTING.md, "Words",
# says what to write instead.
#
#   scripts/words.sh             compares with scripts/words.txt
#   scripts/words.sh lower       writes counts that fell into scripts/words.txt
#   scripts/words.sh show WORD   prints each line that has WORD
set -euo pipefail
cd "$(dirname "$0")/.."
recorded=scripts/words.txt

# Comments of sources and all lines of documents, each behind its file's name.
text() {
  find . -name target -prune -o -name .git -prune -o \( -name '*.rs' -o -name '*.md' \) -print0 |
    xargs -0 awk '
    FILENAME ~ /\.md$/ { print FILENAME ": " $0; next }
    (at = index($0, "//")) && $0 !~ /https?:\/\// { print FILENAME ": " substr($0, at) }'
}

# count WORD ..: each word and how often it occurs, as a whole word.
count() {
  text | awk -v words="$*" '
    BEGIN { n = split(words, word, ","); for (i = 1; i <= n; i++) gsub(/_/, " ", word[i]) }
    {
      sub(/^[^:]*: /, "")
      line = " " tolower($0) " "
      gsub(/[^a-z ]/, " ", line)
      gsub(/ +/, " ", line)
      gsub(/ /, "  ", line)
      for (i = 1; i <= n; i++) {
        wanted = " " word[i] " "
        gsub(/ /, "  ", wanted)
        wanted = substr(wanted, 2, length(wanted) - 2)
        found[i] += gsub(wanted, wanted, line)
      }
    }
    END { for (i = 1; i <= n; i++) print word[i] "\t" found[i] }'
}

set -- "${1:-compare}" "${@:2}"
case $1 in
  compare | lower)
    words=$(grep -v '^#' "$recorded" | cut -f1 | tr ' ' '_' | paste -sd,)
    grew=0 lowered=$(mktemp)
    trap 'rm -f "$lowered"' EXIT
    grep '^#' "$recorded" >"$lowered"
    while IFS=$'\t' read -r word now; do
      before=$(awk -F'\t' -v w="$word" '$1 == w { print $2 }' "$recorded")
      if [ "$now" -gt "$before" ]; then
        printf '"%s" occurs %d times, %d before: scripts/words.sh show "%s"\n' "$word" "$now" "$before" "$word" >&2
        grew=1 now=$before
      fi
      printf '%s\t%d\n' "$word" "$now" >>"$lowered"
    done < <(count "$words")
    [ "$1" != lower ] || cp "$lowered" "$recorded"
    exit $grew
    ;;
  show)
    [ $# = 2 ] || { echo "words.sh show WORD" >&2; exit 2; }
    text | grep -iw -- "$2"
    ;;
  *)
    echo "words.sh [lower | show WORD], not $1" >&2
    exit 2
    ;;
esac
