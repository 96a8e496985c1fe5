foreach(test causal_lm causal_lm_ops lora generation)
  apo_add_test(model.${test} SOURCES ${test}_test.cpp ROOMS model
    LIBS nlohmann_json::nlohmann_json)
  # they look behind the public headers
  target_include_directories(test_model_${test} PRIVATE ${CMAKE_SOURCE_DIR}/src/model)
endforeach()
apo_add_test(model.smollm2 SOURCES smollm2_test.cpp ROOMS model TIMEOUT 300)

# transformers and PEFT, on checkpoints and adapters written by them and by us
add_executable(causal_lm_probe causal_lm_probe.cpp)
target_link_libraries(causal_lm_probe PRIVATE apo_options apo::model)
foreach(oracle logits_parity peft_parity)
  add_test(NAME model.${oracle}
    COMMAND ${APO_VENV}/bin/python ${CMAKE_SOURCE_DIR}/tests/oracles/${oracle}.py
            $<TARGET_FILE:causal_lm_probe>)
  set_tests_properties(model.${oracle} PROPERTIES TIMEOUT 300 LABELS "oracle"
    ENVIRONMENT "OMP_NUM_THREADS=1;HF_HUB_OFFLINE=1;TRANSFORMERS_OFFLINE=1")
endforeach()
