# apo_add_test(<name> SOURCES ... [ROOMS rooms] [LIBS ...] [RANKS 2 4] [LABELS ...] [TIMEOUT s]
#              [ENVIRONMENT VAR=value ...])
# No RANKS: plain GoogleTest. RANKS: one CTest entry <name>.np<n> per count, through mpiexec.
find_package(GTest REQUIRED)
set(APO_MPIEXEC_FLAGS "--oversubscribe;--bind-to;none" CACHE STRING "Open MPI 4 flags for tests")
set(APO_MPI_TEST_ENVIRONMENT OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1)

function(apo_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "TIMEOUT" "SOURCES;ROOMS;LIBS;RANKS;LABELS;ENVIRONMENT")
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "apo_add_test(${name}): unknown ${A_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 60)
  endif()
  list(TRANSFORM A_ROOMS PREPEND apo::)
  string(REPLACE "." "_" target "test_${name}")
  add_executable(${target} ${A_SOURCES})
  target_link_libraries(${target} PRIVATE apo_options ${A_ROOMS} ${A_LIBS} GTest::gtest)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE APO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(NOT A_RANKS)
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${target})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "unit;${A_LABELS}"
      ENVIRONMENT "OMP_NUM_THREADS=1;${A_ENVIRONMENT}")
    return()
  endif()
  target_link_libraries(${target} PRIVATE apo_mpi_test_main)
  math(EXPR inner "${A_TIMEOUT} - 5")
  foreach(n IN LISTS A_RANKS)
    add_test(NAME ${name}.np${n}
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} ${APO_MPIEXEC_FLAGS}
              --timeout ${inner} $<TARGET_FILE:${target}>)
    set_tests_properties(${name}.np${n} PROPERTIES
      PROCESSORS ${n} TIMEOUT ${A_TIMEOUT} LABELS "mpi;np${n};${A_LABELS}"
      ENVIRONMENT "APO_TEST_RANKS=${n};${APO_MPI_TEST_ENVIRONMENT};${A_ENVIRONMENT}")
  endforeach()
endfunction()
