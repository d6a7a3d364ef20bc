/* Owns: the program that an IPU would run, of an executable (tremula/program.h). */
#include <stdlib.h>

#include "exec/executable.h"
#include "program/program.h"

static void release(void *keeper) { trm_executable_free(keeper); }

static const char *text_of(const trm_executable *executable, trm_option_id id) {
  const char *text = executable->options.values[id];
  return text[0] == '\0' ? NULL : text;
}

static double number_of(const trm_executable *executable, trm_option_id id) {
  const char *text = text_of(executable, id);
  return text == NULL ? 0 : strtod(text, NULL);
}

trm_program_options trm_program_options_of(const trm_executable *executable) {
  trm_program_options options = trm_program_default_options();
  options.conv_memory_proportion = options.matmul_memory_proportion =
      number_of(executable, TRM_OPTION_available_memory_proportion);
  options.slice_memory_proportion = number_of(executable, TRM_OPTION_slice_memory_proportion);
  (void)trm_selection_order_parse(executable->options.values[TRM_OPTION_selection_order],
                                  &options.selection_order); /* checked when it was set */
  options.convolution_options = text_of(executable, TRM_OPTION_convolution_options);
  options.matmul_options = text_of(executable, TRM_OPTION_matmul_options);
  options.io_tiles = (uint32_t)number_of(executable, TRM_OPTION_io_tiles);
  options.place_ops_on_io_tiles =
      trm_options_bool(&executable->options, TRM_OPTION_place_ops_on_io_tiles);
  options.io_tile_memory_proportion = number_of(executable, TRM_OPTION_io_tile_memory_proportion);
  options.compile_ipu_code = trm_options_bool(&executable->options, TRM_OPTION_compile_ipu_code);
  options.remote_memory = !trm_options_bool(&executable->options, TRM_OPTION_ipu_model);
  options.minimum_remote_bytes = (int64_t)number_of(executable, TRM_OPTION_minimum_remote_bytes);
  trm_error ignored; /* the list was checked with the other options */
  (void)trm_synthetic_parse(executable->options.values[TRM_OPTION_synthetic_data],
                            &options.synthetic, &ignored);
  options.recompute = trm_options_bool(&executable->options, TRM_OPTION_recompute);
  options.schedule_as_written =
      trm_options_bool(&executable->options, TRM_OPTION_fallback_scheduler);
  options.schedule_post_order =
      trm_options_bool(&executable->options, TRM_OPTION_post_order_scheduler);
  return options;
}

/* The executable's machine, with as many IPUs and tiles as it was compiled for. */
static trm_status target_of(const trm_executable *executable, trm_target **out_target,
                            trm_error *error) {
  trm_target *machine;
  TRY(trm_target_load(executable->options.values[TRM_OPTION_target], &machine, error));
  const trm_status status = trm_target_resize(
      machine, (uint32_t)number_of(executable, TRM_OPTION_ipus),
      (uint32_t)number_of(executable, TRM_OPTION_tiles_per_ipu), out_target, error);
  trm_target_release(machine);
  return status;
}

static trm_status plan(trm_executable *executable, const trm_target *target,
                       const trm_program_options *options, trm_program **out_program,
                       trm_error *error) {
  trm_program_options own_options;
  trm_target *own_target = NULL;
  if (options == NULL) {
    own_options = trm_program_options_of(executable);
    TRY(trm_executable_num_replicas(executable, &own_options.replicas, error));
    options = &own_options;
  }
  if (target == NULL) {
    TRY(target_of(executable, &own_target, error));
    target = own_target;
  }
  const trm_status status =
      trm_program_create_shared(executable->shared, target, options, out_program, error);
  trm_target_release(own_target);
  if (status != TRM_OK) return status;
  (*out_program)->keeper = executable;
  (*out_program)->release = release;
  return TRM_OK;
}

/* The one by the executable's own options: planned for the first who asks. A failure is not kept:
 * it may have been for want of memory. */
static trm_status kept(trm_executable *executable, trm_program **out_program, trm_error *error) {
  pthread_mutex_lock(&executable->estimating);
  trm_status status = TRM_OK;
  if (executable->estimate == NULL) {
    status = plan(executable, NULL, NULL, &executable->estimate, error);
    if (status == TRM_OK) executable->estimate->is_kept = true;
  }
  *out_program = executable->estimate;
  pthread_mutex_unlock(&executable->estimating);
  return status;
}

trm_status trm_program_create_for_executable(trm_executable *executable, const trm_target *target,
                                             const trm_program_options *options,
                                             trm_program **out_program, trm_error *error) {
  const trm_status status = target == NULL && options == NULL
                                ? kept(executable, out_program, error)
                                : plan(executable, target, options, out_program, error);
  if (status == TRM_OK) (void)trm_executable_retain(executable); /* trm_program_free gives back */
  return status;
}
