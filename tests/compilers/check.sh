#!/bin/sh
# sh tests/compilers/check.sh [pattern]
#
# The library with every compiler, standard library and processor that this machine has the tools for, and as clang-tidy
# and Doxygen read it: one line for each configuration, "ok", "FAILED" (with the reason above it) or "left out" (with
# what is missing). A pattern, as for grep -E, picks configurations by name. Nothing is installed; on Debian, the tools
# are in g++-N, clang-N, libc++-N-dev, libc++abi-N-dev, g++-12-multilib, g++-aarch64-linux-gnu, g++-s390x-linux-gnu,
# qemu-user, clang-tidy, doxygen, libeigen3-dev, doctest-dev. EIGEN and DOCTEST name the folders where those two are, if
# not /usr/include/eigen3 and /usr/include.
#
# MSVC and Apple clang are left to conditionals in the headers that nothing here has tried.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 2
pattern=${1:-.}
eigen=${EIGEN:-/usr/include/eigen3}
doctest=${DOCTEST:-/usr/include}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0

# doctest by itself: beside it lie headers of this machine that a compiler for another must not see.
mkdir "$work/doctest" && cp "$doctest/doctest/doctest.h" "$work/doctest/" || exit 2

warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wsign-conversion -Wdouble-promotion -Werror"
portable="headwise npy agreement compare"
kernels="isa scores"

# doctest counts with __COUNTER__, which the newest Clang calls an extension.
clang_warnings="-Wno-unknown-warning-option -Wno-c2y-extensions"
# Without SSE a vector is returned otherwise than with it: of interest to those who mix the two. And where size_t has 32
# bits, the tests narrow numbers of 64 to it.
x86_warnings="-Wno-psabi -Wno-error=conversion"

optimise=-O0  # warnings are what a compiler has to say; the processors' programs run for longer

have() { command -v "$1" >/dev/null 2>&1; }

line() { printf '%-9s %s\n' "$1" "$2"; }

# compile LOG PROGRAM SOURCES COMMAND...: builds a program from files of tests/.
compile() {
    log=$1 program=$2 sources=$3 compiler=$4
    shift 4
    files=
    for source in $sources; do files="$files $root/tests/$source.cpp"; done
    # shellcheck disable=SC2086  # lists of words
    "$compiler" $warnings $optimise "$@" -pthread -DHEADWISE_TEST_DATA="\"$root/tests/data\"" -I "$root/include" \
        -isystem "$eigen" -isystem "$work" $files -o "$program" >"$log" 2>&1
}

# check NAME MISSING RUNNER TESTS COMMAND...: builds tests/test_<TESTS>.cpp into one program and runs it. MISSING, where
# not empty, is the tool that is not there. $except: test cases that are not asked of it, because of $why.
except= why=
check() {
    name=$1 missing=$2 runner=$3 tests=$4
    shift 4
    printf '%s\n' "$name" | grep -Eq -- "$pattern" || return
    if [ -n "$missing" ]; then
        line "left out" "$name: no $missing"
        return
    fi
    log=$work/log
    # shellcheck disable=SC2086
    if compile "$log" "$work/program" "main $(for test in $tests; do printf 'test_%s ' "$test"; done)" "$@" &&
        $runner "$work/program" \
            --test-case-exclude="shapes of several*,threads*,two callers*,a pool*${except:+,$except}" >"$log" 2>&1; then
        line ok "$name${except:+, without test cases on $why}"
    else
        tail -n 30 "$log"
        line FAILED "$name"
        failed=$((failed + 1))
    fi
}

# Every public function without exceptions and run-time type information: a refusal prints its sentence and aborts.
check_without_exceptions() {
    name=$1
    shift
    printf '%s\n' "$name" | grep -Eq -- "$pattern" || return
    log=$work/log
    if compile "$log" "$work/program" without_exceptions "$@" -fno-exceptions -fno-rtti &&
        { "$work/program" >"$log" 2>&1; grep -q "^and aborted" "$log"; }; then
        line ok "$name"
    else
        tail -n 30 "$log"
        line FAILED "$name"
        failed=$((failed + 1))
    fi
}

# unless TOOL...: the first of them that is not there.
unless() {
    for tool; do
        have "$tool" || { echo "$tool"; return; }
    done
}

# unless_compiles COMMAND...: "<the command>" where it cannot make a program.
unless_compiles() {
    echo '#include <string>
int main(int n, char** a) { return int(std::string(a[0]).size()) < n; }' >"$work/probe.cpp"
    "$@" "$work/probe.cpp" -o "$work/probe" >/dev/null 2>&1 || echo "$*"
}

# --- Compilers and standard libraries ---------------------------------------------------------------------------------
newest_clang=
for version in 12 13 14 15 16; do
    have g++-$version || [ $version = 12 ] || continue
    for standard in 20 23; do
        check "GCC $version, C++$standard" "$(unless g++-$version)" "" "$portable" g++-$version -std=c++$standard
    done
    have g++-$version && check_without_exceptions "GCC $version, without exceptions" g++-$version -std=c++20
done
for version in 14 15 16 17 18 19 20 21 22 23; do
    have clang++-$version || [ $version = 14 ] || continue
    for standard in 20 23; do
        # Clang 14 knows C++23 by its working name.
        name=c++$standard
        [ $standard$version = 2314 ] && name=c++2b
        check "Clang $version, C++$standard" "$(unless clang++-$version)" "" "$portable" \
            clang++-$version $clang_warnings -std=$name
    done
    have clang++-$version && newest_clang=$version
done
if [ -n "$newest_clang" ]; then
    clang="clang++-$newest_clang $clang_warnings"
    check_without_exceptions "Clang $newest_clang, without exceptions" $clang -std=c++20
    # In C++23 it has std::mdspan, and the others do not yet. Static: its packages let an older shared library stand.
    libcxx="-stdlib=libc++ -static-libstdc++"
    for standard in 20 23; do
        check "Clang $newest_clang, libc++, C++$standard" "$(unless_compiles $clang $libcxx)" "" \
            "$portable interop interop_spans" $clang $libcxx -std=c++$standard
    done
    check "Clang $newest_clang, kernels" "" "" "$kernels" $clang -std=c++20
fi

# --- Other readers ----------------------------------------------------------------------------------------------------
# read_by NAME TOOL COMMAND...: in the root, with the tool's output in $work.
read_by() {
    name=$1 tool=$2
    shift 2
    printf '%s\n' "$name" | grep -Eq -- "$pattern" || return
    if ! have "$tool"; then
        line "left out" "$name: no $tool"
    elif (cd "$root" && "$@") >"$work/log" 2>&1; then
        line ok "$name"
    else
        grep -E '(warning|error):' "$work/log"
        line FAILED "$name"
        failed=$((failed + 1))
    fi
}
document() { { cat examples/Doxyfile && echo "OUTPUT_DIRECTORY = $work"; } | doxygen -; }

read_by "clang-tidy" clang-tidy clang-tidy --quiet --warnings-as-errors='*' tests/compilers/everything.cpp -- \
    -std=c++20 -I include -isystem "$eigen"
read_by "Doxygen" doxygen document

# --- Processors -------------------------------------------------------------------------------------------------------
# Where an aarch64 compiler is installed, Debian's g++-12-multilib comes without the folder of kernel headers that
# 32-bit programs need: x86-64's will do.
optimise=-O1
x86=/usr/include/x86_64-linux-gnu
# x87 computes in registers of 64 bits of mantissa, and rounds only what it has to put into memory: which of the sums
# these are depends on what is computed beside them. Results are as accurate, but not the same bits for other strides,
# alignments and numbers of rows, as they are with SSE2 and on every other processor. (test_npy has sizes of 64 bits.)
except="any strides*,transposed operands*,strided operands whose*,a row's bits*"
why="equal bits, which x87 does not promise"
check "32-bit x86" "$(unless_compiles g++ -m32 -idirafter $x86)" "" "headwise agreement compare $kernels" \
    g++ -std=c++20 -m32 $x86_warnings -idirafter $x86
except= why=
check "32-bit x86 with SSE2" "$(unless_compiles g++ -m32 -idirafter $x86)" "" "headwise $kernels" \
    g++ -std=c++20 -m32 -msse2 -mfpmath=sse $x86_warnings -idirafter $x86
export HEADWISE_TEST_DENSE=0 # fewer sizes where a processor is emulated
check "aarch64" "$(unless aarch64-linux-gnu-g++ qemu-aarch64)" qemu-aarch64 "headwise npy tensor $kernels" \
    aarch64-linux-gnu-g++ -std=c++20 -static
check "s390x (big-endian)" "$(unless s390x-linux-gnu-g++ qemu-s390x)" qemu-s390x "npy tensor" \
    s390x-linux-gnu-g++ -std=c++20 -static

[ $failed = 0 ]
