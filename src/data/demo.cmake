target_sources(apo_data PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_words.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_grammar.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_pairs.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_rules.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_sampler.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/demo_tokenizer.cpp)
