# Third-party libraries, each found once and wrapped in one target.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(Boost REQUIRED COMPONENTS program_options)
pkg_check_modules(ONIG REQUIRED IMPORTED_TARGET oniguruma)

set(MPI_CXX_SKIP_MPICXX TRUE) # Open MPI 4's C++ bindings would leak into every source
find_package(MPI REQUIRED COMPONENTS C)
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

set(HDF5_PREFER_PARALLEL OFF) # rank 0 writes: see README, "Run files"
find_package(HDF5 REQUIRED COMPONENTS C HL)
add_library(apo_hdf5 INTERFACE)
target_include_directories(apo_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_link_libraries(apo_hdf5 INTERFACE ${HDF5_LIBRARIES} ${HDF5_HL_LIBRARIES})
target_compile_definitions(apo_hdf5 INTERFACE ${HDF5_DEFINITIONS})

find_library(GLPK_LIBRARY glpk REQUIRED)
find_path(GLPK_INCLUDE_DIR glpk.h REQUIRED)
add_library(apo_glpk INTERFACE)
target_include_directories(apo_glpk SYSTEM INTERFACE ${GLPK_INCLUDE_DIR})
target_link_libraries(apo_glpk INTERFACE ${GLPK_LIBRARY})

# LibTorch lives in PyPI's torch wheel. find_package(Torch) would append global flags and look for
# CUDA by itself, so the few libraries are named here.
file(GLOB APO_SITE LIST_DIRECTORIES true ${APO_VENV}/lib/python3*/site-packages)
if(NOT EXISTS ${APO_SITE}/torch/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no torch in ${APO_VENV}: run jobs/setup.sh, or set APO_VENV to a Python "
                      "environment with torch 2.13.0 (or 2.14.1 for CUDA)")
endif()
add_library(apo_torch INTERFACE)
# The wheel carries its own copy of fmt: searched last, so that the system's fmt (and the spdlog built
# with it) wins.
target_compile_options(apo_torch INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${APO_SITE}/torch/include>"
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${APO_SITE}/torch/include/torch/csrc/api/include>")
set(APO_TORCH_LIBS ${APO_SITE}/torch/lib/libtorch.so ${APO_SITE}/torch/lib/libtorch_cpu.so
                   ${APO_SITE}/torch/lib/libc10.so)
if(APO_WITH_CUDA)
  include(ApoCuda)
endif()
target_link_libraries(apo_torch INTERFACE -Wl,--push-state,--no-as-needed ${APO_TORCH_LIBS}
  -Wl,--pop-state)
target_link_options(apo_torch INTERFACE -Wl,-rpath,${APO_SITE}/torch/lib)
