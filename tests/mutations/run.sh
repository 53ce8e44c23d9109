#!/bin/sh
# sh tests/mutations/run.sh [PATTERN]
# sh tests/mutations/run.sh --check [PATTERN]   only whether each fault can be planted: builds nothing
#
# Plants each fault of faults.txt in a copy of include/, one at a time, builds the test that must catch it, and runs
# that. With a pattern, only the faults whose description, file or test matches it (grep -E). One line each, then a
# summary; status 1 when one survives or when the list itself is wrong: a fault whose text is no longer in its file,
# or more than once.
#
#   caught          the test failed or crashed
#   caught (time)   it did not end; which may be the machine's fault
#   caught (build)  it no longer compiles: a static_assert
#   SURVIVED        nothing noticed: write a test
#   not applicable  this machine cannot show it
#   LIST ERROR      the fault cannot be planted: mend faults.txt
#   TEST FAILS      the test fails, or does not build, without any fault: it cannot show one
#
# CXX; MUTATION_FLAGS, default -O0, which builds in half the time; MUTATION_SECONDS for each test, default 120;
# EIGEN_INCLUDE for Eigen elsewhere.
set -u
here=$(cd "$(dirname "$0")" && pwd -P) || exit 2
root=$(cd "$here/../.." && pwd -P) || exit 2
build=yes
if [ "${1:-}" = --check ]; then
    build=no
    shift
fi
pattern=${1:-.}
compiler=${CXX:-c++}
flags=${MUTATION_FLAGS:--O0}
seconds=${MUTATION_SECONDS:-120}
eigen=/usr/include/eigen3
for folder in ${EIGEN_INCLUDE:-} /usr/local/include/eigen3; do [ -d "$folder/Eigen" ] && eigen=$folder; done

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

# The list, a folder for each fault, a file for each of its fields.
awk -v work="$work" '
    /^#/ { next }
    /^[ \t]*$/ { inside = 0; next }
    !inside { inside = 1; folder = sprintf("%s/%03d", work, ++count); system("mkdir " folder) }
    { file = folder "/" $1
      value = $0
      sub(/^[^ ]+ */, "", value)
      print value > file
      close(file) }
' "$here/faults.txt"

# plant FAULT FROM TO: copies a file with the one place that reads `is` reading `but`; fails unless there is one such
# place.
plant() {
    awk -v fault="$1" '
        BEGIN { getline is < (fault "/is"); getline but < (fault "/but") }
        { at = index($0, is)
          if (at) { ++found; $0 = substr($0, 1, at - 1) but substr($0, at + length(is)) }
          print }
        END { exit found == 1 ? 0 : 1 }
    ' "$2" >"$3"
}

# applicable NEED: does this machine have it?
applicable() {
    case $1 in
        x86) [ "$(uname -m)" = x86_64 ] ;;
        aarch64) [ "$(uname -m)" = aarch64 ] ;;
        *) grep -qw "$1" /proc/cpuinfo 2>/dev/null ;;
    esac
}

# catches TEST INCLUDE: what the test makes of the headers there.
catches() {
    # shellcheck disable=SC2086  # flags are words
    "$compiler" -std=c++20 $flags -w -I "$2" -isystem "$eigen" -DHEADWISE_TEST_DATA="\"$root/tests/data\"" \
        "$root/tests/test_$1.cpp" "$work/main.o" -o "$work/program" -pthread >"$work/build.log" 2>&1 || {
        echo "caught (build)"
        return
    }
    HEADWISE_TEST_DENSE=0 timeout "$seconds" "$work/program" >"$work/test.log" 2>&1
    case $? in
        0) echo SURVIVED ;;
        124) echo "caught (time)" ;;
        *) echo caught ;;
    esac
}

# sound TEST: does it pass on the headers as they are? Asked once of each.
sound() {
    [ -e "$work/sound.$1" ] || catches "$1" "$work/include" >"$work/sound.$1"
    [ "$(cat "$work/sound.$1")" = SURVIVED ]
}

[ $build = no ] || "$compiler" -std=c++20 -O1 -w -I "$root/include" -c "$root/tests/main.cpp" -o "$work/main.o" || exit 2
mkdir "$work/include" && cp -r "$root/include/." "$work/include" || exit 2
: >"$work/results"
for fault in "$work"/[0-9]*; do
    read -r what <"$fault/fault"
    read -r file <"$fault/file"
    read -r tests <"$fault/test"
    printf '%s %s %s\n' "$what" "$file" "$tests" | grep -qE "$pattern" || continue
    need=$(cat "$fault/needs" 2>/dev/null)
    original=$root/include/headwise/$file
    if ! plant "$fault" "$original" "$work/planted" 2>/dev/null; then
        result="LIST ERROR"
    elif [ -n "$need" ] && ! applicable "$need"; then
        result="not applicable"
    elif [ $build = no ]; then
        result="can be planted"
        for test in $tests; do [ -e "$root/tests/test_$test.cpp" ] || result="LIST ERROR"; done
    else
        for test in $tests; do
            result="TEST FAILS"
            sound "$test" || continue
            cp "$work/planted" "$work/include/headwise/$file"
            result=$(catches "$test" "$work/include")
            cp "$original" "$work/include/headwise/$file"
            [ "$result" = SURVIVED ] || break
        done
    fi
    printf '%-15s %-24s %-22s %s\n' "$result" "$file" "$tests" "$what"
    echo "$result" >>"$work/results"
done
count() { grep -c "^$1" "$work/results"; }
printf '%s faults: %s caught, %s survived, %s not applicable, %s errors\n' "$(count '')" "$(count caught)" \
    "$(count SURVIVED)" "$(count 'not applicable')" "$(count '[LT][IE]ST ')"
[ "$(count SURVIVED)" = 0 ] && [ "$(count '[LT][IE]ST ')" = 0 ]
