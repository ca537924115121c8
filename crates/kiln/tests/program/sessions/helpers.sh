# Commands of the sessions beside kiln and the system's own.
set -o pipefail
umask 022

# data NAME BYTES [SEED]: makes a file whose bytes depend on their position.
data() { seq "${3:-1}0000000" "${3:-1}9999999" 2> /dev/null | head -c "$2" > "$1" || true; }

# flip NAME OFFSET [BIT]: flips one bit of a file.
flip() {
  local byte
  byte=$(od -An -tu1 -j"$2" -N1 "$1")
  printf "\\x$(printf %02x $((byte ^ 1 << ${3:-3})))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# encoded CODE BYTES [FLAG...]: makes "object", and its shards in the folder "shards".
encoded() {
  data object "$2"
  kiln encode object -c "$1" -o shards -q "${@:3}"
}

# decodes: decodes "shards" and compares the result with "object".
decodes() { kiln decode shards -o back --force -q && cmp back object; }

# pool CODE NODES [FLAG...]: makes a pool of the folders d00, d01, ...
pool() {
  local at nodes=()
  for at in $(seq -f %02g 0 $(($2 - 1))); do
    mkdir -p "d$at"
    nodes+=(--node "d$at")
  done
  kiln pool create -c "$1" "${nodes[@]}" -q "${@:3}"
}

# pick NAMES: prints the fields of JSON with these names, divided by |.
pick() { grep -oE "\"($1)\": ?([^],{}[\"]+|\"[^\"]*\")" | sed 's/": */": /'; }

# top NAMES: prints the fields of a report with these names, but for lists and parts.
top() { grep -E "^  \"($1)\": [^[{]" | tr -d ' ,'; }

# rows NAME: prints how many fields of JSON have this name.
rows() { grep -oE "\"$1\":" | wc -l; }

# tree FOLDER [FORMAT]: lists everything below a folder: kind, mode, target, sum; with a FORMAT of
# find's also times.
tree() {
  (
    cd "$1" || exit
    find . -mindepth 1 \( -type l -printf '%P -> %l\n' \
      -o -type d -printf "%P/ %m$2\n" -o -printf "%P %m$2\n" \) | sort
    find . -type f -exec cksum {} + | sort
  )
}

# same ONE OTHER: compares two folders by `tree`.
same() { diff <(tree "$1") <(tree "$2"); }

# state: remembers, or compares with what it remembered, the contents of folders.
state() { for folder in "$@"; do tree "$folder"; done | cksum; }

# vectors: where what earlier releases wrote lies.
vectors=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../vectors")

# files FOLDER: lists the shards in a node's folder.
files() { ls "$1" | grep '\.kiln$'; }

# tree_of_all_kinds: makes "tree" with objects of each kind: empty, inline, one and many stripes.
tree_of_all_kinds() {
  local at=0 size
  for size in 0 10 50000 100000 4500000; do
    mkdir -p "tree/folder $at"
    data "tree/folder $at/ü$size" $size $((at + 1))
    at=$((at + 1))
  done
}

# comes_back: copies "backup" of the pool and compares it with "tree".
comes_back() {
  kiln cp pool:backup back --force -q 2> /dev/null && diff -r tree back && rm -r back
}

# agent FOLDER [FLAG...]: serves a folder until the session ends; its address is in $FOLDER.
agents=()
trap 'kill -9 "${agents[@]}" 2> /dev/null' EXIT
agent() {
  local name=$1
  : > "$name.out"
  "${agent_program:-kiln}" agent --dir "$name" --listen "${listen:-127.0.0.1:0}" --json "${@:2}" \
    > "$name.out" 2> "$name.log" &
  disown $!
  agents+=($!)
  printf -v "${name}_pid" %s $!
  until grep -q '^}' "$name.out"; do sleep 0.02; done
  printf -v "$name" %s "$(grep -oP '"address": "\K[^"]+' "$name.out")"
}

# halt FOLDER...: kills agents, as power cuts would.
halt() {
  local name pid
  for name; do
    pid=${name}_pid
    kill -9 "${!pid}"
    while kill -0 "${!pid}" 2> /dev/null; do sleep 0.02; done
  done
}

# agent_pool CODE NODES [FLAG...]: makes a pool of the agents d0, d1, ..., for which `k` is kiln.
agent_pool() {
  local at nodes=()
  kiln agent --init --key cluster.key -q
  for at in $(seq 0 $(($2 - 1))); do
    agent d$at --key cluster.key
    local name=d$at
    nodes+=(--node "${!name},id=n$at")
  done
  k pool create -c "$1" "${nodes[@]}" -q "${@:3}"
}
k() { kiln "$@" --key cluster.key; }

# objects SIZE...: puts the objects o0, o1, ...
# is_whole: they come back, and a scrub finds nothing.
objects() {
  local at=0 size
  for size; do
    data o$at $size $((at + 1))
    k put o$at -q
    at=$((at + 1))
  done
}
is_whole() {
  local name
  for name in o?*; do k get $name -o back --force -q && cmp back $name; done
  k scrub --json | top damaged
}

# rounds PART: lists the numbers of this part of all rounds of kills.
# usual COMMAND...: runs a command, and remembers how many microseconds it takes.
# killed COMMAND...: kills a command after a random part of that, a little more than it included.
# calm COMMAND...: runs a command; prints its warnings only if it fails: a kill may leave some.
# like FILE OTHER: compares two files, and says how to repeat a run where they differ.
RANDOM=${KILN_SEED:=$$}
like() { cmp "$@" || echo "KILN_SEED=$KILN_SEED"; }
rounds() { seq $(((${KILN_KILL_ROUNDS:-200} + $1 - 1) / $1)); }
usual() {
  local from=${EPOCHREALTIME/./}
  "$@" && usual=$((${EPOCHREALTIME/./} - from))
}
killed() {
  local moment=$(((RANDOM * 32768 + RANDOM) % (usual * 11 / 10)))
  "$@" &
  local pid=$!
  sleep $((moment / 1000000)).$(printf %06d $((moment % 1000000)))
  { kill -9 $pid; wait $pid; } 2> /dev/null
}

calm() {
  "$@" 2> said || {
    local code=$?
    cat said; echo "KILN_SEED=$KILN_SEED"
    return $code
  }
}

# tidied FILES: scrubs and repairs a pool; then it is whole, and its nodes (a drained disk is none
# of them any more) hold so many files of objects.
tidied() {
  kiln scrub --grace 0 -q 2> said || test $? = 1 || cat said
  calm kiln repair -q && calm kiln scrub --grace 0 -q
  local nodes=$(calm kiln status --json | grep -oP '"id": "n\K[0-9]+' | sort -u | sed s/^/d/)
  local files=$(find $nodes -type f ! -name '*kiln-*' | wc -l)
  test $files = $1 || echo "$files files, not $1; KILN_SEED=$KILN_SEED"
}

# decoded: decodes "shards", past what is lost, and compares the result with "object".
# holds FOLDER NUMBER: a folder has so many files that are not hidden.
decoded() { calm kiln decode shards -o back --force -q && like back object; }
holds() { test $(ls "$1" | wc -l) = "$2" || ls "$1"; }
