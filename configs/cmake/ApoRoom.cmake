# apo_add_room(<room> SOURCES ... [DEPENDS rooms] [PUBLIC libs] [PRIVATE libs])
# One static library per room; DEPENDS states the layering of the design a second time.
function(apo_add_room room)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "" "SOURCES;DEPENDS;PUBLIC;PRIVATE")
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "apo_add_room(${room}): unknown ${A_UNPARSED_ARGUMENTS}")
  endif()
  add_library(apo_${room} STATIC ${A_SOURCES})
  add_library(apo::${room} ALIAS apo_${room})
  target_include_directories(apo_${room} PUBLIC ${CMAKE_SOURCE_DIR}/include
                             PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  list(TRANSFORM A_DEPENDS PREPEND apo::)
  target_link_libraries(apo_${room} PUBLIC ${A_DEPENDS} ${A_PUBLIC} PRIVATE apo_options ${A_PRIVATE})
endfunction()
