# SPDX-License-Identifier: Apache-2.0
# The plug-ins of docs/extending.md, built into a second program and into the conformance tests.
#
# extended(<suffix> <folder> <programs>) generates the lists anew, with the folder's files in them, by the same
# function as the real ones; compiles the files that hold the registries with these lists; and links
# the objects of the program and of the tests, as they are, with the new registries. So what the test
# sees is what a user gets who drops the file in, without compiling the library a second time.

set(registries ops/op.c read/reader.c layer/layer.c layer/init.c updater/updater.c ps/protocol.c ps/merge.c learners/gradients.c
    cli/cli.c)
list(TRANSFORM registries PREPEND ${CMAKE_SOURCE_DIR}/src/)

function(extended suffix folder)
  set(GEN ${CMAKE_BINARY_DIR}/gen${suffix})
  foreach(row ${MUSTER_PLUGIN_LISTS})
    separate_arguments(row)
    list(GET row 2 letter)
    plugin_list(${row} ${CMAKE_SOURCE_DIR}/${folder}/${letter}_*.c)
  endforeach()
  file(GLOB plugins CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  add_kernels(plugins${suffix} plugins)
  set(kernel_objects ${plugins})
  list(FILTER kernel_objects INCLUDE REGEX "TARGET_OBJECTS")
  list(FILTER plugins EXCLUDE REGEX "TARGET_OBJECTS")
  add_library(plugins${suffix} OBJECT ${registries} ${plugins})
  target_include_directories(plugins${suffix} BEFORE PRIVATE ${GEN})
  target_link_libraries(plugins${suffix} PRIVATE libmuster)
  foreach(program ${ARGN})
    if(TARGET ${program})
      add_executable(${program}${suffix} $<TARGET_OBJECTS:${program}> $<TARGET_OBJECTS:plugins${suffix}>
                     ${kernel_objects})
      target_link_libraries(${program}${suffix} PRIVATE muster_cli)
      if(NOT program STREQUAL muster)
        target_link_libraries(${program}${suffix} PRIVATE PkgConfig::CMOCKA)
      endif()
    endif()
  endforeach()
endfunction()

set(conform conform_layer conform_cuts conform_init conform_updater conform_schedule conform_reader conform_op
    conform_protocol conform_merge conform_gradients test_updater_apply test_ops_meaning)
extended(_extended test/extending muster ${conform})
extended(_wrong test/extending/wrong conform_layer conform_cuts conform_updater)

if(CMOCKA_FOUND)
  foreach(n ${conform})
    add_test(NAME ${n}_extended COMMAND ${n}_extended WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(${n}_extended PROPERTIES TIMEOUT 300)
  endforeach()
  # The same programs must find what is wrong with a plug-in they have never heard of.
  foreach(pair "layer;layer wrong .*: gradient of src0.* central difference"
               "cuts;layer centre .* cut into 1 x 2.*: output 0" "updater;wrong: loss .* before")
    list(GET pair 0 n)
    list(GET pair 1 answer)
    add_test(NAME conform_${n}_wrong COMMAND conform_${n}_wrong WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(conform_${n}_wrong PROPERTIES TIMEOUT 300 PASS_REGULAR_EXPRESSION "${answer}")
  endforeach()
endif()
