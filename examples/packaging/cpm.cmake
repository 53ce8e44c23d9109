# With CPM.cmake (https://github.com/cpm-cmake/CPM.cmake), of which a copy lies in cmake/ beside your CMakeLists.txt.
include(cmake/CPM.cmake)
CPMAddPackage(NAME headwise GIT_REPOSITORY <where you cloned headwise from> GIT_TAG main)
target_link_libraries(your_program PRIVATE headwise::headwise)
