# apo_options: warnings and sanitizers, linked PRIVATE so they never reach users of the libraries.
add_library(apo_options INTERFACE)
target_compile_options(apo_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor>)
if(APO_WERROR)
  target_compile_options(apo_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(APO_SANITIZE)
  target_compile_options(apo_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${APO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>
    # g++ sees uninitialised std::optional contents in instrumented code that the plain build clears
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  target_link_options(apo_options INTERFACE -fsanitize=${APO_SANITIZE})
endif()

find_program(APO_CCACHE ccache)
if(APO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${APO_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${APO_CCACHE})
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2") # asserts stay on: they are cheap beside the model
