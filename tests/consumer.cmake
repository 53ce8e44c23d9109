# One way into a project, from an empty folder: configure, build and run tests/consumer.
# cmake -DHOW=... -DSOURCE=<headwise> -DFOLDER=<scratch> -DCXX=<compiler> -DVERSION=<of headwise> -P consumer.cmake
#
# HOW: copied            include/ in another place and a bare compiler line; Eigen's folder is -DEIGEN=
#      add_subdirectory, harness_subdirectory
#      fetch_content     the README's block, from a git repository
#      cpm               examples/packaging/cpm.cmake, the same; CPM.cmake is -DCPM=
#      find_package, harness_package         after cmake --install, the prefix then moved
#      pkg_config, harness_pkg_config        the same, without CMake in the consumer; the program is -DPKG_CONFIG=
#      deb               what cpack -G DEB makes, unpacked
cmake_minimum_required(VERSION 3.24)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

macro(must)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_VARIABLE output
                    ERROR_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT result EQUAL 0)
        string(JOIN " " line ${ARGN})
        message(NOTICE "${output}")
        message(FATAL_ERROR "${line}: failed (${result})")
    endif()
endmacro()

# What headwise may add to a compiler line: the language level, folders, threads.
function(only_harmless_flags flags)
    foreach(flag IN LISTS flags)
        if(NOT flag MATCHES "^(-std=[a-z+]*[0-9a-z]+|-(I|isystem)|(-I|-isystem)?/.*|-pthread|-l?pthread)$")
            message(FATAL_ERROR "headwise adds ${flag} to the compiler line: ${flags}")
        endif()
    endforeach()
endfunction()

set(headwise ${SOURCE})
set(program main.cpp)
set(module headwise)
set(more)
if(HOW MATCHES "^harness")
    set(program harness.cpp)
    set(module headwise-harness)
    set(more -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON)
endif()

# --- Without CMake in the consumer ------------------------------------------------------------------------------------
if(HOW STREQUAL "copied")
    file(COPY ${SOURCE}/include/ DESTINATION ${FOLDER}/third_party)
    must(${CXX} -std=c++20 -I third_party -I ${EIGEN} ${SOURCE}/tests/consumer/main.cpp -o your_program -pthread)
    must(${FOLDER}/your_program)
    must(${CXX} -std=c++20 -I third_party ${SOURCE}/tests/consumer/harness.cpp -o harness_program -pthread)
    must(${FOLDER}/harness_program)
    return()
endif()

# --- A tree to take it from -------------------------------------------------------------------------------------------
if(HOW MATCHES "^(fetch_content|cpm)$")
    # A repository of the tree as it is, and the published block with its placeholder filled in.
    set(headwise ${FOLDER}/repository)
    file(COPY ${SOURCE}/include ${SOURCE}/CMakeLists.txt ${SOURCE}/LICENSE DESTINATION ${headwise})
    must(git init -q -b main ${headwise})
    must(git -C ${headwise} add .)
    must(git -C ${headwise} -c user.name=test -c user.email=test@example.org -c commit.gpgsign=false commit -q -m test)
    if(HOW STREQUAL "fetch_content")
        file(READ ${SOURCE}/README.md readme)
        if(NOT readme MATCHES "```cmake\n(include\\(FetchContent\\)[^`]*)```")
            message(FATAL_ERROR "README.md has no FetchContent block")
        endif()
        set(block "${CMAKE_MATCH_1}")
    else()
        file(READ ${SOURCE}/examples/packaging/cpm.cmake block)
        string(REPLACE "cmake/CPM.cmake" "${CPM}" block "${block}")
    endif()
    string(REGEX REPLACE "<[^>]*>" "${headwise}" block "${block}")
    file(WRITE ${FOLDER}/fetch.cmake "${block}")
    list(APPEND more -DFETCH_BLOCK=${FOLDER}/fetch.cmake)
elseif(HOW MATCHES "(package|pkg_config)$")
    # Installed to one place, moved to another.
    must(${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/install -DHEADWISE_EXAMPLES=OFF -DCMAKE_CXX_COMPILER=${CXX}
         -DCMAKE_INSTALL_PREFIX=${FOLDER}/first)
    must(${CMAKE_COMMAND} --install ${FOLDER}/install)
    file(RENAME ${FOLDER}/first ${FOLDER}/moved)
    set(headwise ${FOLDER}/moved)
    list(APPEND more -DCMAKE_PREFIX_PATH=${headwise})
elseif(HOW STREQUAL "deb")
    must(${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/package -DHEADWISE_EXAMPLES=OFF -DCMAKE_CXX_COMPILER=${CXX})
    must(${CMAKE_CPACK_COMMAND} -G DEB --config ${FOLDER}/package/CPackConfig.cmake -B ${FOLDER})
    set(deb ${FOLDER}/libheadwise-dev_${VERSION}_all.deb)
    must(dpkg-deb -f ${deb} Depends)
    if(NOT output MATCHES "^libeigen3-dev \\(>= 3.4\\)$")
        message(FATAL_ERROR "the package depends on '${output}'")
    endif()
    must(dpkg-deb -c ${deb})
    string(REGEX MATCH "[^\n]*/(bin|lib|lib64)/[^\n]*" foreign "${output}")
    if(foreign)
        message(FATAL_ERROR "the package holds more than headers: ${foreign}")
    endif()
    must(dpkg-deb -x ${deb} ${FOLDER}/root)
    set(headwise ${FOLDER}/root/usr)
    list(APPEND more -DCMAKE_PREFIX_PATH=${headwise})
endif()

if(HOW MATCHES "(package|pkg_config|deb)$")  # a consumer for another processor is served all the same
    function(require_any_width)
        set(CMAKE_SIZEOF_VOID_P 16)
        set(PACKAGE_FIND_VERSION ${VERSION})
        string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" ignored "${VERSION}")
        set(PACKAGE_FIND_VERSION_MAJOR ${CMAKE_MATCH_1})
        set(PACKAGE_FIND_VERSION_MINOR ${CMAKE_MATCH_2})
        include(${headwise}/share/cmake/headwise/headwise-config-version.cmake)
        if(PACKAGE_VERSION_UNSUITABLE OR NOT PACKAGE_VERSION_COMPATIBLE)
            message(FATAL_ERROR "the version file of ${PACKAGE_VERSION} refuses one of ${VERSION}, 128 bits wide")
        endif()
    endfunction()
    require_any_width()
endif()

# --- The consumer -----------------------------------------------------------------------------------------------------
if(HOW MATCHES "pkg_config$")
    set(ENV{PKG_CONFIG_PATH} ${headwise}/share/pkgconfig)
    must(${PKG_CONFIG} --exact-version=${VERSION} ${module})
    must(${PKG_CONFIG} --cflags --libs ${module})
    separate_arguments(flags UNIX_COMMAND "${output}")
    only_harmless_flags("${flags}")
    if(HOW MATCHES "^harness" AND output MATCHES "eigen")
        message(FATAL_ERROR "the harness alone brings Eigen along: ${output}")
    endif()
    must(${CXX} -std=c++20 -Wall -Wextra -Wconversion -Wshadow -Werror ${SOURCE}/tests/consumer/${program} -o your_program
         ${flags})
    must(${FOLDER}/your_program)
    return()
endif()

must(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${FOLDER}/build -DCMAKE_CXX_COMPILER=${CXX} -DHOW=${HOW}
     -DHEADWISE=${headwise} -DPROGRAM=${program} -DVERSION=${VERSION} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
     "-DCMAKE_CXX_FLAGS=" ${more})
file(READ ${FOLDER}/build/compile_commands.json commands)
string(JSON line GET "${commands}" 0 command)
separate_arguments(flags UNIX_COMMAND "${line}")
list(POP_FRONT flags)  # the compiler
list(FIND flags -o at)
list(SUBLIST flags 0 ${at} flags)
only_harmless_flags("${flags}")
must(${CMAKE_COMMAND} --build ${FOLDER}/build)
must(${FOLDER}/build/your_program)
