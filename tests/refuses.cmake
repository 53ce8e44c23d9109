# A command line that is refused: exit status 2, nothing on stdout, one line on stderr that matches.
# cmake -DCOMMAND=... -DPATTERN=... -P refuses.cmake
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE result)
if(NOT result EQUAL 2 OR NOT out STREQUAL "" OR NOT err MATCHES "^[^\n]*\n$" OR NOT err MATCHES "${PATTERN}")
    message(SEND_ERROR "exit status ${result}, should be 2 and match ${PATTERN}\n--- stdout\n${out}--- stderr\n${err}")
endif()
