#!/bin/sh
# sh check_kernels.sh <headwise's include folder> <scratch folder> <compiler>...
# Compiles the hot kernels (kernels.cpp) with each compiler, without any -march, and looks at their loops (hot_loops.awk).
set -u
here=$(dirname "$0") include=$1 folder=$2 status=0
shift 2
mkdir -p "$folder" || exit 2

printf '%-27s %-10s %s %6s %6s %7s %7s\n' kernel compiler '   ' FMAs loads stores spills
for compiler; do
    # What is known to spill, a vector or two a step. SSE2 has sixteen registers and multiplies into one of its operands.
    case $($compiler --version) in
        *clang*) allowed='avx2 few_rows 4' ;;
        *) allowed='baseline few_rows 12' ;;
    esac
    for level in -O2 -O3; do
        assembly=$folder/$(basename "$compiler")$level.s
        if ! $compiler -std=c++20 $level -I "$include" -S -o "$assembly" "$here/kernels.cpp"; then
            echo "$compiler $level: kernels.cpp does not compile." >&2
            status=1
        else
            awk -v compiler="$(basename "$compiler")" -v level=$level -v expected=37 -v allowed="$allowed" \
                -f "$here/hot_loops.awk" "$assembly" || status=1
        fi
    done
done
exit $status
