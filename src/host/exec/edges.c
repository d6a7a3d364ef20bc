/* Owns: float16 inputs and outputs of programs that store them as float32
 * (host/passes/float_halves.c).
 *
 * An input is converted once for each version of its contents, so weights are not converted in
 * every run. A variable stays float32 from run to run, as in the memory of the original's IPU
 * Model; what the host reads of it is rounded. */
#include "base/memory.h"
#include "host/exec/engine.h"
#include "host/ops/products/half_arrays.h"

static int64_t count_of(const trm_tensor_info *info) {
  return (int64_t)(info->bytes / sizeof(uint16_t));
}

trm_status trm_engine_create_edges(trm_engine *engine, trm_error *error) {
  const trm_executable *executable = engine->executable;
  engine->float_inputs = trm_allocate_zeroed(executable->num_inputs, sizeof *engine->float_inputs);
  CHECK_MEMORY(engine->float_inputs, "an engine");
  for (size_t i = 0; i < executable->num_inputs; ++i) {
    if (!executable->float_inputs[i]) continue;
    engine->float_inputs[i].block =
        trm_allocate_aligned((size_t)count_of(&executable->inputs[i]) * sizeof(float));
    CHECK_MEMORY(engine->float_inputs[i].block, "the float32 of an input");
  }
  return TRM_OK;
}

void trm_engine_free_edges(trm_engine *engine) {
  for (size_t i = 0; engine->float_inputs != NULL && i < engine->executable->num_inputs; ++i) {
    trm_free(engine->float_inputs[i].block);
  }
  trm_free(engine->float_inputs);
}

trm_status trm_engine_widen_input(trm_engine *engine, uint32_t replica, size_t i,
                                  const void *halves, uint64_t version, const void **out_floats,
                                  trm_error *error) {
  trm_float_input *input = &engine->float_inputs[i];
  *out_floats = input->block;
  if (version == 0 ? replica > 0 : version == input->version) return TRM_OK;
  TRY(trm_fetch_resident(halves, error));
  trm_halves_widen(TRM_F16, halves, input->block, count_of(&engine->executable->inputs[i]));
  input->version = version;
  return TRM_OK;
}

void trm_engine_narrow_outputs(const trm_engine *engine, void *const *outputs) {
  const trm_executable *executable = engine->executable;
  for (size_t o = 0; executable->has_floats && o < executable->num_outputs; ++o) {
    if (!executable->float_outputs[o]) continue;
    const trm_own_output *own = &engine->replicas[0].own[o];
    trm_forget_resident(outputs[o]);
    trm_halves_narrow(TRM_F16, own->blocks[own->written], outputs[o],
                      count_of(&executable->outputs[o]));
  }
}

const void *trm_engine_output(const trm_engine *engine, uint32_t replica, size_t i) {
  const trm_executable *executable = engine->executable;
  if (replica < 1 || replica >= engine->num_replicas || i >= executable->num_outputs) return NULL;
  const trm_own_output *own = &engine->replicas[replica].own[i];
  const void *block = own->blocks[own->written];
  if (trm_fetch_resident(block, &(trm_error){0}) != TRM_OK) return NULL;
  if (!executable->float_outputs[i]) return block;
  trm_halves_narrow(TRM_F16, block, own->rounded, count_of(&executable->outputs[i]));
  return own->rounded;
}
