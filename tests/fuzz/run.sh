#!/bin/sh
# sh tests/fuzz/run.sh [SECONDS [NAME...]]
#
# Builds every fuzz_*.cpp here with Clang's libFuzzer, under the address and undefined-behaviour sanitizers, and runs
# each for so many seconds (default 60) from its seeds, and first over everything in regressions/<name>: a bug's bytes
# go there. A new operation's fuzzer needs no more than its file. Prints one line each, "name executions edges";
# status 1 if any found something. FUZZ_BUILD: where to build and keep what was found. FUZZ_SANITIZERS: which (address,
# undefined, ...); empty: none, and many more calls, which are held to the reference all the same.
set -u
here=$(cd "$(dirname "$0")" && pwd -P) || exit 2
root=$(cd "$here/../.." && pwd -P) || exit 2
sanitizers=${FUZZ_SANITIZERS-address,undefined,float-divide-by-zero,float-cast-overflow}
# With more, Clang 14 takes more than ten minutes to build fuzz_scores under the sanitizers.
optimise=-O1
[ -z "$sanitizers" ] || optimise=-O0
seconds=${1:-60}
[ $# -gt 0 ] && shift
build=${FUZZ_BUILD:-$root/build-fuzz${sanitizers:+-sanitized}}
mkdir -p "$build" || exit 2

compiler=
for candidate in clang++ $(for version in 22 21 20 19 18 17 16 15 14; do echo clang++-$version; done); do
    command -v "$candidate" >/dev/null 2>&1 && compiler=$candidate && break
done
[ -n "$compiler" ] || { echo "fuzz: no clang++; libFuzzer is part of Clang" >&2; exit 2; }
eigen=/usr/include/eigen3
for folder in ${EIGEN_INCLUDE:-} /usr/local/include/eigen3; do [ -d "$folder/Eigen" ] && eigen=$folder; done

names=$*
[ -n "$names" ] || names=$(cd "$here" && for file in fuzz_*.cpp; do name=${file#fuzz_}; echo "${name%.cpp}"; done)

# Builds a fuzzer, if anything that it may include has changed.
build_one() {
    program=$build/fuzz_$1
    newer=$(find "$root/include" "$here" "$root"/tests/operations.hpp "$root"/tests/*reference.hpp \
        "$root/examples/profile_scores" -newer "$program" -name '*.[chi]*' 2>/dev/null | head -n 1)
    [ -e "$program" ] && [ -z "$newer" ] && return 0
    "$compiler" -std=c++20 $optimise -g1 -fsanitize=fuzzer${sanitizers:+,$sanitizers} \
        -fno-sanitize-recover=undefined -I "$root/include" -isystem "$eigen" "$here/fuzz_$1.cpp" -o "$program" \
        -pthread >"$build/$1.log" 2>&1 && return 0
    cat "$build/$1.log" >&2
    return 1
}

# Runs it from its seeds, and says what it did.
run_one() {
    name=$1
    log=$build/$name.log
    mkdir -p "$build/corpus/$name" "$build/found"
    set -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$build/found/$name-"
    [ -e "$here/$name.dict" ] && set -- "$@" -dict="$here/$name.dict"
    set -- "$@" "$build/corpus/$name"
    for folder in "$here/seeds/$name" "$here/regressions/$name"; do [ -d "$folder" ] && set -- "$@" "$folder"; done
    "$build/fuzz_$name" "$@" >"$log" 2>&1
    status=$?
    [ $status -eq 0 ] || tail -n 30 "$log" >&2
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%-10s %12s executions %8s edges\n' "$name" "${runs:-?}" "${edges:-?}"
    return $status
}

failed=0
for name in $names; do
    build_one "$name" && run_one "$name" || failed=1
done
exit $failed
