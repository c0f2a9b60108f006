# SPDX-License-Identifier: Apache-2.0
# embed_files(<out> <files>): writes EMBED("name", bytes...) rows for text files, so that the program
# carries the very files of the repository. Bytes, because a string literal may not be that long in C11.
function(embed_files out)
  set(text "")
  foreach(f ${ARGN})
    file(READ ${f} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    get_filename_component(n ${f} NAME_WE)
    string(APPEND text "EMBED(\"${n}\", ${bytes})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()
