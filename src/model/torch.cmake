# The model itself. The inner loops are written to be vectorised (-O3) and to give the same bits
# with every instruction set (no contraction to fused multiply-add).
set_source_files_properties(causal_lm_kernels.cpp PROPERTIES
  COMPILE_OPTIONS "-O3;-fno-math-errno;-ffp-contract=off")
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/pretraining.cpp)
  set(APO_PRETRAINING pretraining.cpp)
endif()
apo_add_room(model
  SOURCES causal_lm.cpp causal_lm_batch.cpp causal_lm_decode.cpp causal_lm_kernels.cpp
          causal_lm_load.cpp causal_lm_ops.cpp causal_lm_rope.cpp generation.cpp language_model.cpp
          lora.cpp ${APO_PRETRAINING}
  DEPENDS core model_files
  PUBLIC apo_torch)
