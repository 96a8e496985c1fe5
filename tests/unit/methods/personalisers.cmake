# What new clients do.
apo_add_test(methods.ditto_schedule
  SOURCES ditto_schedule_test.cpp ${CMAKE_SOURCE_DIR}/src/methods/ditto_schedule.cpp ROOMS core)
apo_add_test(methods.personaliser SOURCES personaliser_test.cpp ROOMS methods)
apo_add_test(methods.text_baselines SOURCES text_baselines_test.cpp ROOMS methods)
foreach(test ditto_schedule personaliser)
  target_include_directories(test_methods_${test} PRIVATE ${CMAKE_SOURCE_DIR}/src/methods)
endforeach()
