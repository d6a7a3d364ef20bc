/* Owns: host functions that programs call. */
#include <string.h>

#include "host/exec/engine.h"

trm_status trm_engine_set_host_function(trm_engine *engine, const char *id,
                                        trm_host_function function, void *user, trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  bool found = false;
  for (uint32_t h = 0; h < schedule->num_host_calls; ++h) {
    if (strcmp(schedule->host_calls[h].id, id) != 0) continue;
    engine->host_functions[h] = (trm_host_binding){function, user};
    found = true;
  }
  if (!found) FAIL(NOT_FOUND, "the program has no host call with the id '%s'", id);
  return TRM_OK;
}

trm_status trm_engine_set_host_call(trm_engine *engine, size_t i, trm_host_function function,
                                    void *user, trm_error *error) {
  const uint32_t count = engine->executable->schedule->num_host_calls;
  if (i >= count) {
    FAIL(OUT_OF_RANGE, "the program has %u host calls; there is no number %zu", count, i);
  }
  engine->host_functions[i] = (trm_host_binding){function, user};
  return TRM_OK;
}

const char *trm_executable_host_call(const trm_executable *executable, size_t i,
                                     const trm_tensor_info **out_inputs, size_t *out_num_inputs,
                                     const trm_tensor_info **out_outputs, size_t *out_num_outputs) {
  if (i >= executable->schedule->num_host_calls) return NULL;
  const trm_host_call_info *info = &executable->schedule->host_calls[i];
  *out_inputs = info->inputs;
  *out_num_inputs = info->num_inputs;
  *out_outputs = info->outputs;
  *out_num_outputs = info->num_outputs;
  return info->id;
}

static trm_status call_for(const trm_host_binding *binding, const trm_kernel_call *arrays,
                           uint32_t replica, trm_error *error) {
  trm_error said = {0};
  const trm_status status =
      binding->function(binding->user, arrays->operands, arrays->results, replica, &said);
  if (status == TRM_OK) return TRM_OK;
  said.message[sizeof said.message - 1] = '\0';
  return trm_fail(error, status, "%s",
                  said.message[0] != '\0' ? said.message : "a function of the host failed");
}

trm_status trm_replica_call_host(const trm_engine *engine, uint32_t number, uint32_t i,
                                 trm_error *error) {
  const trm_schedule *schedule = engine->executable->schedule;
  const uint32_t call = schedule->steps[i].feed;
  const trm_host_binding *binding = &engine->host_functions[call];
  if (binding->function == NULL) {
    FAIL(FAILED_PRECONDITION,
         "the program calls a function of the host, '%s', but none has been set for it "
         "(trm_engine_set_host_function)",
         schedule->host_calls[call].id);
  }
  const trm_replica *replica = &engine->replicas[number];
  const trm_kernel_call *arrays = &replica->calls[i];
  trm_exchange *exchange = schedule->host_calls[call].together ? replica->exchange : NULL;
  if (exchange == NULL) return call_for(binding, arrays, number, error);
  TRY(exchange->meet(exchange, &schedule->steps[i], arrays, NULL, error));
  for (uint32_t k = 0; number == 0 && k < exchange->num_here; ++k) {
    TRY(call_for(binding, exchange->calls[exchange->first + k], k, error));
  }
  return exchange->leave(exchange, error);
}
