# CUDA and NCCL: headers and run-time compiler from the machine's toolkit, libraries from the torch
# wheel, so that the process holds one libcudart and one libnccl. Needs no GPU and no libcuda.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25.1 does not know C++20 for nvcc 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

# The wheel ships libraries as .so.N only: they are linked by full path.
file(GLOB APO_NCCL_LIBRARY ${APO_SITE}/nvidia/nccl/lib/libnccl.so.*)
file(GLOB APO_CUDART_LIBRARY ${APO_SITE}/nvidia/cu1*/lib/libcudart.so.*)
foreach(needed APO_NCCL_LIBRARY APO_CUDART_LIBRARY)
  list(LENGTH ${needed} count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${needed}: found '${${needed}}' in ${APO_SITE}/nvidia, expected one file. "
                        "APO_WITH_CUDA needs a Python environment with torch 2.14.1 "
                        "(-DAPO_VENV=...); torch's CPU wheel has no CUDA libraries")
  endif()
endforeach()
if(NOT EXISTS ${APO_SITE}/torch/lib/libtorch_cuda.so)
  message(FATAL_ERROR "no libtorch_cuda.so in ${APO_SITE}/torch/lib: APO_WITH_CUDA needs torch "
                      "2.14.1, not the CPU wheel")
endif()
get_filename_component(APO_NCCL_DIR ${APO_NCCL_LIBRARY} DIRECTORY)
get_filename_component(APO_CUDART_DIR ${APO_CUDART_LIBRARY} DIRECTORY)

# NCCL and the CUDA runtime without torch: for the communicator.
add_library(apo_nccl INTERFACE)
target_include_directories(apo_nccl SYSTEM INTERFACE ${APO_SITE}/nvidia/nccl/include
  ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(apo_nccl INTERFACE ${APO_NCCL_LIBRARY} ${APO_CUDART_LIBRARY})
target_link_options(apo_nccl INTERFACE -Wl,-rpath,${APO_NCCL_DIR} -Wl,-rpath,${APO_CUDART_DIR})

# ATen's CUDA headers want cusparse.h, which the toolkit may lack: the wheel's come last.
target_include_directories(apo_torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS}
  ${APO_SITE}/nvidia/nccl/include)
get_filename_component(APO_CUDA_WHEEL_DIR ${APO_CUDART_DIR} DIRECTORY)
target_compile_options(apo_torch INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX,CUDA>:SHELL:-idirafter ${APO_CUDA_WHEEL_DIR}/include>")
list(APPEND APO_TORCH_LIBS ${APO_SITE}/torch/lib/libtorch_cuda.so
  ${APO_SITE}/torch/lib/libc10_cuda.so ${APO_NCCL_LIBRARY} ${APO_CUDART_LIBRARY})
target_link_options(apo_torch INTERFACE -Wl,-rpath,${APO_NCCL_DIR} -Wl,-rpath,${APO_CUDART_DIR})
