apo_add_test(data.demo_grammar SOURCES demo_grammar_test.cpp ROOMS data)
apo_add_test(data.demo_rules SOURCES demo_rules_test.cpp ROOMS data)
apo_add_test(data.demo_tokenizer SOURCES demo_tokenizer_test.cpp ROOMS data text)
apo_add_test(data.demo_shipped SOURCES demo_shipped_test.cpp ROOMS data text LIBS ZLIB::ZLIB)

# The tokenizer file read by its reference implementation, on lines of the corpus.
add_executable(demo_tokenizer_probe demo_tokenizer_probe.cpp)
target_link_libraries(demo_tokenizer_probe PRIVATE apo_options apo::data apo::text
                      nlohmann_json::nlohmann_json)
add_test(NAME data.demo_tokenizer_oracle
  COMMAND ${APO_VENV}/bin/python ${CMAKE_SOURCE_DIR}/tests/oracles/demo_tokenizer_oracle.py
          $<TARGET_FILE:demo_tokenizer_probe> ${CMAKE_SOURCE_DIR}/configs/demo/model)
set_tests_properties(data.demo_tokenizer_oracle PROPERTIES TIMEOUT 120 LABELS "oracle"
  ENVIRONMENT "OMP_NUM_THREADS=1;TOKENIZERS_PARALLELISM=false")

if(TARGET apo_model)
  apo_add_test(cli.demo_pairs TIMEOUT 120
    SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/cli/demo_pairs_test.cpp
            ${CMAKE_SOURCE_DIR}/src/cli/demo_pairs.cpp
    ROOMS data text model LIBS ZLIB::ZLIB fmt::fmt)
  target_include_directories(test_cli_demo_pairs PRIVATE ${CMAKE_SOURCE_DIR}/src/cli)
  apo_add_test(model.pretraining SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/model/pretraining_test.cpp
    ROOMS model TIMEOUT 120)
endif()
