# One way into a project, from an empty folder: configure, build and run tests/consumer.
# cmake -DHOW=... -DSOURCE=<headwise> -DFOLDER=<scratch> -DCXX=<compiler> -DVERSION=<of headwise> -P consumer.cmake
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

macro(must)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_VARIABLE output
                    ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        string(JOIN " " line ${ARGN})
        message(NOTICE "${output}")
        message(FATAL_ERROR "${line}: failed (${result})")
    endif()
endmacro()

set(headwise ${SOURCE})
set(program main.cpp)
set(more)
if(HOW MATCHES "^harness")
    set(program harness.cpp)
    set(more -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON)
endif()

if(HOW STREQUAL "fetch_content")
    # A repository of the tree as it is, and the README's block with its placeholder filled in.
    set(headwise ${FOLDER}/repository)
    file(COPY ${SOURCE}/include ${SOURCE}/CMakeLists.txt ${SOURCE}/LICENSE DESTINATION ${headwise})
    must(git init -q -b main ${headwise})
    must(git -C ${headwise} add .)
    must(git -C ${headwise} -c user.name=test -c user.email=test@example.org -c commit.gpgsign=false commit -q -m test)
    file(READ ${SOURCE}/README.md readme)
    if(NOT readme MATCHES "```cmake\n(include\\(FetchContent\\)[^`]*)```")
        message(FATAL_ERROR "README.md has no FetchContent block")
    endif()
    string(REGEX REPLACE "<[^>]*>" "${headwise}" block "${CMAKE_MATCH_1}")
    file(WRITE ${FOLDER}/fetch.cmake "${block}")
    list(APPEND more -DFETCH_BLOCK=${FOLDER}/fetch.cmake)
elseif(HOW MATCHES "package$")
    # Installed to one place, moved to another.
    must(${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/install -DBUILD_TESTING=OFF -DCMAKE_CXX_COMPILER=${CXX}
         -DCMAKE_INSTALL_PREFIX=${FOLDER}/first)
    must(${CMAKE_COMMAND} --install ${FOLDER}/install)
    file(RENAME ${FOLDER}/first ${FOLDER}/moved)
    set(headwise ${FOLDER}/moved)
    list(APPEND more -DCMAKE_PREFIX_PATH=${headwise})
endif()

must(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${FOLDER}/build -DCMAKE_CXX_COMPILER=${CXX} -DHOW=${HOW}
     -DHEADWISE=${headwise} -DPROGRAM=${program} -DVERSION=${VERSION} ${more})
must(${CMAKE_COMMAND} --build ${FOLDER}/build)
must(${FOLDER}/build/your_program)
