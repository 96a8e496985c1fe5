# The losses of a language model on preference pairs.
apo_add_test(objective.preference_objectives SOURCES preference_objectives_test.cpp ROOMS objective
  LIBS nlohmann_json::nlohmann_json)
apo_add_test(objective.preference_objectives_kinds SOURCES preference_objectives_kinds_test.cpp
  ROOMS objective)
apo_add_test(objective.preference_loss SOURCES preference_loss_test.cpp ROOMS objective)
target_include_directories(test_objective_preference_loss PRIVATE ${CMAKE_SOURCE_DIR}/src/objective)
