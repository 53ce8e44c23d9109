#!/bin/sh
# sh tests/run.sh --matrix[=quick] [PATTERN], or sh tests/matrix/run.sh [--no-install] [quick|whole] [PATTERN]
#
# The tests in many configurations: compilers, sanitizers, flags, emulated processors, fuzzers, planted faults. Each
# runs a stated part of the tests, so that all of it ends in about an hour on two processors (`quick`: a few minutes,
# what CI runs). A line for each as it ends, a table at the end; status 1 if anything failed. What the machine lacks
# is installed where the package manager has it (setup.sh), else left out, and the table says so. PATTERN picks
# configurations by name (grep -E).
#
# MATRIX_BUILD: where to build (build-matrix). CLANG, GCC: which of each (clang++, g++). EIGEN_INCLUDE. JOBS: how many
# at a time (one for each processor). TESTS: which tests of each configuration (all of its own).
set -u
root=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 2
. "$root/examples/setup.sh"
here=$root/tests/matrix

size=whole
for argument; do
    shift
    case $argument in
        --no-install) install_allowed=no ;;
        quick | whole) size=$argument ;;
        *) set -- "$@" "$argument" ;;
    esac
done
pattern=${1:-.}
build=${MATRIX_BUILD:-$root/build-matrix}
gcc=${GCC:-g++}
clang=${CLANG:-clang++}
eigen=/usr/include/eigen3
for folder in /usr/local/include/eigen3 ${EIGEN_INCLUDE:-}; do [ -d "$folder/Eigen" ] && eigen=$folder; done
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
mkdir -p "$build/tables" || exit 2
table=$build/tables/summary
: >"$table"

provide "$(missing tests)"
# Each of these is worth having and none is needed: without it, its configurations are left out.
for pair in "$gcc:g++" "$clang:clang" valgrind:valgrind qemu-x86_64:qemu-user \
    aarch64-linux-gnu-g++:g++-aarch64-linux-gnu; do
    have "${pair%%:*}" || [ "$size" = quick ] || [ "$(package_manager)" != apt-get ] || (provide "${pair#*:}") ||
        say "going on without ${pair%%:*}"
done

seconds_now() { date +%s; }

# result NAME TESTS FAILED SECONDS REMARK
result() {
    printf '%-24s %6s %7s %8s  %s\n' "$1" "$2" "$3" "$4" "$5" >>"$table"
    printf '%-24s %s\n' "$1" "${5:-$2 tests, $3 failed, $4 s}"
}

# wanted NAME quick|whole: is it asked for?
wanted() { printf '%s\n' "$1" | grep -qE -- "$pattern" && { [ "$size" = whole ] || [ "$2" = quick ]; }; }

# configuration NAME quick|whole NEEDED-PROGRAMS COMPILER FLAGS TESTS [RUNNER]
configuration() {
    name=$1
    wanted "$name" "$2" || return 0
    for program in $3 $4; do
        have "$program" || { result "$name" - - - "left out: no $program"; return 0; }
    done
    tests=$6
    [ -z "${TESTS:-}" ] || tests=$(for test in $6; do case " $TESTS " in *" $test "*) echo "$test" ;; esac done)
    folder=$build/$name
    rm -rf "$folder" && mkdir -p "$folder" || exit 2
    start=$(seconds_now)
    make -k -s -j "$jobs" -f "$here/one.mk" TREE="$root" DIR="$folder" CXX="$4" TESTS="$tests" RUN="${7:-}" \
        SECONDS="${8:-600}" \
        FLAGS="$5 -I $root/include -isystem $eigen -DHEADWISE_TEST_DATA='\"$root/tests/data\"'" >"$folder/make.log" 2>&1
    all=0 failed=0
    for test in $tests; do
        all=$((all + 1))
        [ -e "$folder/$test.passed" ] && continue
        failed=$((failed + 1))
        say "$name: $test failed:"
        tail -n 25 "$folder/$test.log" >&2
    done
    result "$name" $all $failed $(($(seconds_now) - start)) ""
}

# step NAME quick|whole COMMAND...: something that is a script of its own; "tests" is the lines that it prints.
step() {
    name=$1
    wanted "$name" "$2" || return 0
    shift 2
    start=$(seconds_now)
    "$@" >"$build/$name.out" 2>&1
    status=$?
    [ $status -eq 0 ] || cat "$build/$name.out" >&2
    result "$name" "$(grep -c . "$build/$name.out")" $((status != 0)) $(($(seconds_now) - start)) ""
}

warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wsign-conversion -Wdouble-promotion -Werror"
memory="tensor contract npy scores_loop scores sizes_guarded numbers misuse files public_faults headwise"
memory="$memory attention_guarded numbers_attention numbers_einsum"
threads="concurrency parallel crew scores_calls"
types="scores_types attention_types"
all="$memory $threads $types sizes numbers_modes isa scores_allocation profile"
all="$all agreement agreement_report statistics verdict compare report"
undefined="-fsanitize=address,undefined,float-divide-by-zero,float-cast-overflow -fno-sanitize-recover=all"
undefined="$undefined -fno-omit-frame-pointer"
# Unsigned arithmetic wraps by definition, and the random numbers and hashes rest on it: it alone is not checked.
implicit="-fsanitize=implicit-conversion,integer-divide-by-zero,signed-integer-overflow,shift-exponent"
implicit="$implicit -fsanitize-ignorelist=$here/ubsan.ignore"

export ASAN_OPTIONS="allocator_may_return_null=1:detect_stack_use_after_return=1"
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=second_deadlock_stack=1

configuration gcc quick "" "$gcc" "-O2 $warnings" "$all"
configuration clang quick "" "$clang" "-O2 $warnings" "numbers misuse sizes sizes_guarded $threads"
configuration gcc-asan-ubsan quick "" "$gcc" "-O1 -g $undefined" "sizes_guarded numbers misuse public_faults npy"
# -O0: built in a third of the time.
configuration gcc-asan-ubsan-rest whole "" "$gcc" "-O0 -g1 $undefined" \
    "tensor contract scores_loop scores files headwise attention_guarded numbers_attention $threads"
# -O0: with more, Clang 14 takes ten times as long to build these (test_misuse: 13 s, and over two minutes with -O1).
configuration clang-asan-ubsan whole "" "$clang" "-O0 -g1 $undefined $implicit" \
    "$memory $types attention backward"
configuration gcc-tsan quick "" "$gcc" "-O1 -g -fsanitize=thread -Wno-tsan" "$threads"
configuration clang-tsan whole "" "$clang" "-O1 -g -fsanitize=thread" "$threads numbers_modes"
wanted clang-msan whole &&
    result clang-msan - - - "left out: wants a C++ library built with it, else all of std:: is reported; see valgrind"
configuration assertions whole "" "$gcc" "-O1 -UNDEBUG -D_GLIBCXX_ASSERTIONS -D_GLIBCXX_DEBUG" "$all"
configuration valgrind whole valgrind "$gcc" "-O1 -g" "tensor contract npy misuse numbers sizes_guarded" \
    "env HEADWISE_TEST_DENSE=0 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite" 1800
configuration gcc-O0 whole "" "$gcc" -O0 "$all"
configuration clang-O0 whole "" "$clang" -O0 "$memory"
configuration gcc-native whole "" "$gcc" "-O3 -march=native" "$all"
configuration clang-native whole "" "$clang" "-O3 -march=native" "$memory $threads"
# Under -ffast-math the tests of NaN cannot be asked: their own comparisons are folded away.
configuration gcc-fast-math whole "" "$gcc" "-O3 -march=native -ffast-math" \
    "agreement_conformance tensor sizes_guarded sizes concurrency"
configuration clang-fast-math whole "" "$clang" "-O3 -ffast-math" \
    "agreement_conformance tensor sizes_guarded concurrency"
configuration no-exceptions quick "" "$gcc" "-O1 $warnings -fno-exceptions -fno-rtti" without_exceptions
configuration clang-no-exceptions whole "" "$clang" "-O1 $warnings -fno-exceptions -fno-rtti" without_exceptions
# Every L, M and D there is; of attention, which has more to choose, 20000 calls for each target and type.
configuration exhaustive whole "" "$gcc" -O2 "sizes_guarded attention_guarded" "env HEADWISE_TEST_DENSE=2" 1800

if [ "$(uname -m)" = x86_64 ]; then
    configuration qemu-without-avx whole qemu-x86_64 "$gcc" -O2 "isa numbers sizes_guarded" \
        "env HEADWISE_TEST_DENSE=0 HEADWISE_TEST_ISAS=baseline qemu-x86_64 -cpu Nehalem"
    # qemu 7.2 reads the lanes that a masked load leaves out, and faults where no processor does: no guarded pages here.
    configuration qemu-avx2 whole qemu-x86_64 "$gcc" -O2 "isa numbers" \
        "env HEADWISE_TEST_DENSE=0 HEADWISE_TEST_ISAS=baseline,\ avx2 qemu-x86_64 -cpu Haswell"
fi
# doctest by itself: beside it lie headers of this machine that the other must not see.
mkdir -p "$build/doctest/doctest" && cp /usr/include/doctest/doctest.h "$build/doctest/doctest/" 2>/dev/null
configuration qemu-aarch64 whole qemu-aarch64 aarch64-linux-gnu-g++ "-O2 -static -isystem $build/doctest" \
    "isa numbers sizes_guarded $types" "env HEADWISE_TEST_DENSE=0 HEADWISE_TEST_ISAS=baseline,\ neon qemu-aarch64"

# Quick: a few seconds of those that take little time to build.
fuzz="60"
[ "$size" = quick ] && fuzz="5 json npy options"
if have "$clang"; then
    # shellcheck disable=SC2086  # words
    step fuzz quick env FUZZ_BUILD="$build/fuzz" EIGEN_INCLUDE="$eigen" sh "$root/tests/fuzz/run.sh" $fuzz
else
    wanted fuzz quick && result fuzz - - - "left out: no $clang"
fi
step mutations whole env CXX="$gcc" EIGEN_INCLUDE="$eigen" sh "$root/tests/mutations/run.sh"

printf '\n%-24s %6s %7s %8s\n' configuration tests failed seconds
cat "$table"
awk '$3 ~ /^[0-9]+$/ { tests += $2; failed += $3; seconds += $4 }
     END { printf "%-24s %6d %7d %8d\n", "all", tests, failed, seconds; exit failed != 0 }' "$table"
