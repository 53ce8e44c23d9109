# What `sh examples/run.sh` and `sh tests/run.sh` share: find or install the tools, configure, build. Sourced, not run.
#
# Messages go to stderr; stdout belongs to the program. Wants $root, the source tree; CXX in the environment chooses the
# compiler. POSIX sh.

say() { printf 'headwise: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}

: "${root:?}"

have() { command -v "$1" >/dev/null 2>&1; }

install_allowed=yes

# --- What is missing? -----------------------------------------------------------------------------------------------

# The compiler as the user names it, without arguments or launchers; the last word of "ccache g++-12".
compiler=${CXX:-}
compiler_program=${compiler##* }

compiler_found() {
    if [ -n "$compiler" ]; then have "$compiler_program"; else have c++ || have g++ || have clang++; fi
}

cmake_new_enough() {
    have cmake || return 1
    # "cmake version 3.25.1"
    cmake --version | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | {
        read -r major minor && [ $((major * 1000 + minor)) -ge 3024 ]
    }
}

build_tool_found() { have make || have gmake || { have ninja && [ "${CMAKE_GENERATOR:-}" = Ninja ]; }; }

# Does CMake find the package? Without a CMake to ask, none is found.
package_found() {
    cmake_new_enough || return 1
    probe=$(mktemp -d) || die "cannot make a temporary folder"
    cat >"$probe/CMakeLists.txt" <<PROBE
cmake_minimum_required(VERSION 3.24)
project(probe LANGUAGES NONE)
find_package($1 REQUIRED NO_MODULE)
PROBE
    cmake -S "$probe" -B "$probe/build" -G "Unix Makefiles" -DCMAKE_MAKE_PROGRAM=make >/dev/null 2>&1
    found=$?
    rm -rf "$probe"
    return $found
}

# What is not there, of: compiler cmake make eigen doctest.
missing() {
    compiler_found || echo compiler
    cmake_new_enough || echo cmake
    build_tool_found || echo make
    package_found Eigen3 || echo eigen
    if [ "$1" = tests ]; then package_found doctest || echo doctest; fi
}

# --- Installing it --------------------------------------------------------------------------------------------------

package_manager() {
    for manager in apt-get dnf pacman brew; do
        if have $manager; then
            echo $manager
            return
        fi
    done
}

# The package that brings a compiler of this name, with apt-get: clang++-14 is in clang-14.
compiler_package() {
    case ${compiler_program##*/} in
        clang++*) echo "${compiler_program##*/}" | sed 's/++//' ;;
        g++-*) echo "${compiler_program##*/}" ;;
        *) echo g++ ;;
    esac
}

# package_name MANAGER THING
package_name() {
    case $1:$2 in
        apt-get:compiler) compiler_package ;;
        apt-get:eigen) echo libeigen3-dev ;;
        apt-get:doctest) echo doctest-dev ;;
        dnf:compiler) case $compiler_program in *clang*) echo clang ;; *) echo gcc-c++ ;; esac ;;
        dnf:eigen) echo eigen3-devel ;;
        dnf:doctest) echo doctest-devel ;;
        pacman:compiler) case $compiler_program in *clang*) echo clang ;; *) echo gcc ;; esac ;;
        brew:compiler) echo llvm ;;
        *) echo "$2" ;;
    esac
}

# Runs a command as root; errors are shown, progress is not.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@" >/dev/null
    elif have sudo; then
        sudo "$@" >/dev/null
    else
        die "installing $packages needs root or sudo"
    fi
}

# Installs what `missing` named, or says what to install and stops.
provide() {
    [ -n "$1" ] || return 0
    manager=$(package_manager)
    packages=
    for thing in $1; do packages="$packages $(package_name "${manager:-none}" "$thing")"; done
    packages=${packages# }
    [ -n "$manager" ] ||
        die "missing: $packages; no package manager that this script knows (apt-get, dnf, pacman, brew)"
    [ "$install_allowed" = yes ] || die "missing: $packages; install them, or run this without --no-install ($manager)"
    say "installing with $manager: $packages"
    # shellcheck disable=SC2086  # the list is words
    case $manager in
        apt-get)
            as_root apt-get update -qq || say "apt-get update failed; trying with the package lists there are"
            as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
                apt-get install -y -qq --no-install-recommends \
                -o Dpkg::Use-Pty=0 $packages ;;
        dnf) as_root dnf install -y -q $packages ;;
        pacman) as_root pacman -Sy --needed --noconfirm $packages ;;
        brew) brew install -q $packages >/dev/null ;;
    esac || die "$manager could not install: $packages"
}

# The libraries that race_peers races, where apt-get has them. Each is optional: CMake leaves out what it does not find.
provide_peers() {
    have apt-get && have dpkg-query || return 0
    wanted=
    for package in libopenblas-dev libblis-dev libdnnl-dev libxsmm-dev; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok' || wanted="$wanted $package"
    done
    [ -n "$wanted" ] || return 0
    if [ "$install_allowed" != yes ]; then
        say "racing without:$wanted (not installed)"
        return 0
    fi
    packages=${wanted# }
    say "installing with apt-get: $packages"
    as_root apt-get update -qq || say "apt-get update failed; trying with the package lists there are"
    for package in $packages; do
        as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
                apt-get install -y -qq --no-install-recommends \
            -o Dpkg::Use-Pty=0 "$package" || say "racing without $package: apt-get could not install it"
    done
}

# --- Configure and build --------------------------------------------------------------------------------------------

# The build folder: one for each compiler and set of -D options; in the source tree if that can be written to.
choose_build() {
    build=build$(printf '%s' "${compiler:+-$compiler}$1" | tr -c 'A-Za-z0-9.+=,_-' '_')
    if [ -w "$root" ]; then
        build=$root/$build
    else
        build=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/headwise/$(printf '%s' "$root" | cksum | tr -d ' ')/$build
    fi
}

configured() {
    [ -e "$build/Makefile" ] || [ -e "$build/build.ninja" ] || return 1
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"  # else the tree was moved
}

# quietly NAME COMMAND...: the output only if the command fails.
quietly() {
    log=$build/$1.log
    shift
    "$@" >"$log" 2>&1 && return
    cat "$log" >&2
    die "failed: $*"
}

# prepare examples|tests [-D...]: sets $build to a configured build folder, installing what that needs.
prepare() {
    kind=$1
    shift
    choose_build "$*"
    if configured && { [ "$kind" = examples ] || grep -q '^BUILD_TESTING:[^=]*=ON' "$build/CMakeCache.txt"; }; then
        return
    fi
    provide "$(missing "$kind")"
    cmake_new_enough || die "CMake 3.24 or newer is needed; $(cmake --version | head -n 1) is what there is"
    mkdir -p "$build" || die "cannot make the build folder $build"
    say "configuring in $build"
    fresh=
    configured || fresh=--fresh
    testing=OFF
    [ "$kind" = tests ] && testing=ON
    # shellcheck disable=SC2086  # empty, or one word
    quietly configure cmake $fresh -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release "-DBUILD_TESTING=$testing" "$@"
}

# build_target NAME: says so, and shows the build, only if something has changed since the last one.
build_target() {
    stamp=$build/$1.built
    jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
    if [ -e "$stamp" ] && [ -z "$(find "$root/include" "$root/examples" "$root/tests" "$root/CMakeLists.txt" \
                                  -newer "$stamp" 2>/dev/null | head -n 1)" ]; then
        quietly build cmake --build "$build" --target "$1" -j "$jobs"
        return
    fi
    say "building $1 in $build (Release)"
    : >"$stamp.new"
    cmake --build "$build" --target "$1" -j "$jobs" >&2 || die "the build failed"
    mv "$stamp.new" "$stamp"
}
