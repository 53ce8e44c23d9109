# A tree for the tests that has every header's name but only the one-file headers' text: each header forwards to
# single/headwise/headwise.hpp, or, where that does not hold it, is copied.
# cmake -DSOURCE=<headwise> -DFOLDER=<where to; holds single/> -P one_file_tree.cmake
cmake_minimum_required(VERSION 3.24)
file(READ ${FOLDER}/single/headwise/headwise.hpp one_file)
file(GLOB_RECURSE headers RELATIVE ${SOURCE}/include ${SOURCE}/include/*.hpp)
foreach(header IN LISTS headers)
    string(FIND "${one_file}" "\n// ==== ${header}\n" at)
    if(at EQUAL -1)
        configure_file(${SOURCE}/include/${header} ${FOLDER}/tree/${header} COPYONLY)
    else()
        file(CONFIGURE OUTPUT ${FOLDER}/tree/${header} CONTENT "#include <single/headwise/headwise.hpp>\n")
    endif()
endforeach()
