/* Owns: streams, and engines of plain programs.
 *
 * An engine is one plan: a Switch over all programs, whose control is the plan's only input. So all
 * programs share the variables. Behind the given programs stand those of host reads and writes. */
#include <string.h>

#include "base/float_mode.h"
#include "poplar/profile.h"
#include "poplar/save.h"

typedef struct connection {
  trm_poplar_host_function function; /* NULL: none */
  void *user;
  void (*release)(void *user);
} connection;

struct trm_poplar_engine {
  trm_poplar_plan *plan;
  void *block;
  uint32_t num_programs;
  uint64_t *runs; /* by program */
  size_t num_streams;
  connection *connections; /* by stream */
};

/* ---- Streams -------------------------------------------------------------------------------- */

static size_t find_stream(const trm_poplar_core *core, const char *handle) {
  size_t s = 0;
  while (s < core->streams.count && strcmp(core->streams.items[s].handle, handle) != 0) ++s;
  return s;
}

int32_t trm_poplar_add_stream(trm_poplar_graph *graph, const char *handle, int32_t dtype,
                              uint64_t elements, bool to_device, uint32_t *out_stream,
                              trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  if (find_stream(core, handle) < core->streams.count) {
    THROW_POPLAR("the handle '%s' of a stream, a host read or a host write is taken", handle);
  }
  trm_poplar_stream stream = {.handle = trm_poplar_name(core, handle), .to_device = to_device};
  if (stream.handle == NULL) THROW_NO_MEMORY("a stream");
  TRY(trm_poplar_add_variable(graph, dtype, &elements, 1, TRM_POPLAR_PLACE_LINEAR, handle,
                              &stream.elements, error));
  if (!VECTOR_PUSH(&core->streams, stream)) {
    trm_poplar_tensor_release(stream.elements);
    THROW_NO_MEMORY("a stream");
  }
  trm_poplar_tensor_retain(stream.elements);
  *out_stream = (uint32_t)core->streams.count - 1;
  *out_tensor = stream.elements;
  return TRM_OK;
}

int32_t trm_poplar_set_access(trm_poplar_graph *graph, uint32_t stream, trm_poplar_program *program,
                              trm_poplar_error *error) {
  trm_poplar_core *core = graph->core;
  if (stream >= core->streams.count) THROW_POPLAR("there is no stream %u", stream);
  trm_poplar_program_release(core->streams.items[stream].access);
  core->streams.items[stream].access = program;
  trm_poplar_program_retain(program);
  return TRM_OK;
}

static trm_status serve(const trm_poplar_plan *plan, uint64_t stream, void *elements,
                        trm_error *error) {
  const connection *one = &plan->engine->connections[stream];
  const char *handle = plan->graph->core->streams.items[stream].handle;
  if (one->function == NULL) {
    FAIL(FAILED_PRECONDITION, "the stream '%s' is not connected to the host", handle);
  }
  if (one->function(one->user, elements) != 0) {
    FAIL(UNKNOWN, "the host's function of the stream '%s' threw", handle);
  }
  return TRM_OK;
}

/* ---- Engines -------------------------------------------------------------------------------- */

static trm_status choose_program(trm_poplar_graph *graph, trm_poplar_program *const *programs,
                                 uint32_t count, const trm_poplar_tensor *control,
                                 trm_poplar_program **out_program, trm_poplar_error *error) {
  const trm_poplar_core *core = graph->core;
  const size_t all = count + core->streams.count;
  trm_poplar_program **chosen = trm_allocate_zeroed(all + 1, sizeof *chosen);
  if (chosen == NULL) THROW_NO_MEMORY("an engine");
  for (size_t c = 0; c < all; ++c) {
    chosen[c] = c < count ? programs[c] : core->streams.items[c - count].access;
  }
  const trm_poplar_program_parts parts = {
      .tensors = {control}, .children = chosen, .num_children = (uint32_t)all + 1};
  const int32_t status =
      trm_poplar_program_make(graph, TRM_POPLAR_SWITCH, &parts, out_program, error);
  trm_free(chosen);
  return (trm_status)status;
}

static trm_status make(trm_poplar_engine *engine, trm_poplar_saved *of, trm_poplar_error *error) {
  TRY(trm_poplar_plan_create(of->graph, of->program, &of->control, 1, NULL, 0, &engine->plan,
                             error));
  engine->num_programs = of->num_programs;
  engine->num_streams = of->program->children.count - of->num_programs - 1;
  engine->connections = trm_allocate_zeroed(engine->num_streams + 1, sizeof *engine->connections);
  engine->runs = trm_allocate_zeroed(engine->num_programs + 1u, sizeof *engine->runs);
  engine->block = trm_allocate_block(engine->plan->bytes);
  if (engine->connections == NULL || engine->runs == NULL || engine->block == NULL) {
    THROW_NO_MEMORY("an engine");
  }
  engine->plan->engine = engine;
  engine->plan->serve = serve;
  return TRM_OK;
}

static trm_status engine_of(trm_poplar_saved *of, trm_poplar_engine **out_engine,
                            trm_poplar_error *error) {
  trm_poplar_engine *engine = trm_allocate_zeroed(1, sizeof *engine);
  if (engine == NULL) THROW_NO_MEMORY("an engine");
  const trm_status status = make(engine, of, error);
  if (status == TRM_OK) *out_engine = engine;
  else trm_poplar_engine_release(engine);
  return status;
}

int32_t trm_poplar_engine_create(trm_poplar_graph *graph, trm_poplar_program *const *programs,
                                 uint32_t count, trm_poplar_engine **out_engine,
                                 trm_poplar_error *error) {
  trm_poplar_saved of = {.graph = graph, .num_programs = count};
  trm_poplar_graph_retain(graph);
  trm_status status = (trm_status)trm_poplar_add_variable(
      graph, TRM_S32, NULL, 0, TRM_POPLAR_PLACE_LINEAR, "program", &of.control, error);
  if (status == TRM_OK) {
    status = choose_program(graph, programs, count, of.control, &of.program, error);
  }
  if (status == TRM_OK) status = engine_of(&of, out_engine, error);
  trm_poplar_saved_release(&of);
  return status;
}

int32_t trm_poplar_engine_save(const trm_poplar_engine *engine, void **out_data, uint64_t *out_size,
                               trm_poplar_error *error) {
  const trm_poplar_saved of = {engine->plan->graph, engine->plan->program, engine->plan->inputs[0],
                               engine->num_programs};
  return trm_poplar_save(&of, out_data, out_size, error);
}

int32_t trm_poplar_engine_load(const void *data, uint64_t size, trm_poplar_engine **out_engine,
                               trm_poplar_error *error) {
  trm_poplar_saved of;
  TRY(trm_poplar_read_saved(data, size, &of, error));
  const trm_status status = engine_of(&of, out_engine, error);
  trm_poplar_saved_release(&of);
  return status;
}

static void disconnect(connection *one) {
  if (one->release != NULL) one->release(one->user);
  *one = (connection){0};
}

void trm_poplar_engine_release(trm_poplar_engine *engine) {
  if (engine == NULL) return;
  for (size_t s = 0; engine->connections != NULL && s < engine->num_streams; ++s) {
    disconnect(&engine->connections[s]);
  }
  if (engine->block != NULL) trm_free_block(engine->block, engine->plan->bytes);
  trm_poplar_plan_free(engine->plan);
  trm_free(engine->connections);
  trm_free(engine->runs);
  trm_free(engine);
}

int32_t trm_poplar_engine_connect(trm_poplar_engine *engine, const char *handle,
                                  trm_poplar_host_function function, void *user,
                                  void (*release)(void *user), uint64_t *out_bytes,
                                  bool *out_to_device, trm_poplar_error *error) {
  const trm_poplar_core *core = engine->plan->graph->core;
  const size_t stream = find_stream(core, handle);
  if (stream >= engine->num_streams) {
    if (release != NULL) release(user);
    THROW_POPLAR("the engine has no stream '%s'", handle);
  }
  *out_bytes = trm_poplar_bytes(core->streams.items[stream].elements);
  *out_to_device = core->streams.items[stream].to_device;
  disconnect(&engine->connections[stream]);
  engine->connections[stream] = (connection){function, user, release};
  return TRM_OK;
}

int32_t trm_poplar_engine_run(trm_poplar_engine *engine, uint32_t program, const char *handle,
                              trm_poplar_error *error) {
  const trm_poplar_core *core = engine->plan->graph->core;
  const size_t stream = handle == NULL ? 0 : find_stream(core, handle);
  if (handle == NULL && program >= engine->num_programs) {
    THROW_POPLAR("the engine has %u programs, and none of number %u", engine->num_programs,
                 program);
  }
  if (handle != NULL &&
      (stream >= engine->num_streams || core->streams.items[stream].access == NULL)) {
    THROW_POPLAR("the engine has no host read or host write '%s'", handle);
  }
  if (handle == NULL) ++engine->runs[program];
  const int32_t number = (int32_t)(handle == NULL ? program : engine->num_programs + stream);
  trm_error inner;
  const void *operands[] = {&number};
  const trm_kernel_call call = {.operands = operands, .persistent = engine->block};
  const unsigned mode = trm_float_mode_set();
  const trm_status status = trm_poplar_run_plan(engine->plan, &call, &inner);
  trm_float_mode_restore(mode);
  return (int32_t)(status == TRM_OK ? status : trm_poplar_pass(error, &inner));
}

int32_t trm_poplar_engine_profile(trm_poplar_engine *engine, bool steps, bool variables,
                                  char **out_text, trm_poplar_error *error) {
  trm_text text = {0};
  trm_error inner;
  const trm_status status = trm_poplar_write_profile(
      engine->plan, engine->runs, engine->num_programs, steps, variables, &text, &inner);
  if (status == TRM_OK && !text.failed) {
    *out_text = text.data;
    return TRM_OK;
  }
  trm_text_free(&text);
  if (status != TRM_OK) return trm_poplar_pass(error, &inner);
  THROW_NO_MEMORY("a profile");
}
