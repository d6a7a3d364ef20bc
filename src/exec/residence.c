/* Owns: moving values between the host and the accelerator. */
#include "exec/residence.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "ops/host/region.h"
#include "tremula/log.h"

static trm_resident *resident_of(const trm_residence *r, uint32_t slot) {
  return &r->slots[r->schedule->slots[slot].parent];
}

static void drop(trm_resident *resident) {
  trm_device_array_release(resident->array);
  *resident = (trm_resident){0};
}

/* ---- Making and freeing --------------------------------------------------------------------- */

trm_status trm_residence_create(const trm_schedule *schedule, uint32_t replica, trm_residence **out,
                                trm_error *error) {
  *out = NULL;
  trm_accelerator *accelerator = trm_schedule_accelerator(schedule);
  if (accelerator == NULL) return TRM_OK;
  size_t most = 1; /* operands and results of a step */
  for (uint32_t i = 0; i < schedule->num_steps; ++i) {
    const size_t arrays = (size_t)schedule->steps[i].num_operands + schedule->steps[i].num_results;
    if (arrays > most) most = arrays;
  }
  trm_residence *r = trm_allocate_zeroed(1, sizeof *r);
  CHECK_MEMORY(r, "an accelerator's arrays");
  r->schedule = schedule;
  r->accelerator = accelerator;
  r->replica = replica;
  r->slots = trm_allocate_zeroed((size_t)schedule->num_slots + 1, sizeof *r->slots);
  r->arrays = trm_allocate_zeroed(most, sizeof *r->arrays);
  r->may_donate = trm_allocate_zeroed(most, sizeof *r->may_donate);
  if (r->slots == NULL || r->arrays == NULL || r->may_donate == NULL) {
    trm_residence_free(r);
    FAIL_NO_MEMORY("an accelerator's arrays");
  }
  *out = r;
  return TRM_OK;
}

/* Gives the first failure: `status`, or what the regions that are under way end with. */
static trm_status await_all(trm_residence *r, trm_status status, trm_error *error) {
  for (uint32_t i = 0; i < TRM_RUNS_AHEAD; ++i) {
    trm_device_event **event = &r->under_way[(r->next + i) % TRM_RUNS_AHEAD];
    trm_error ignored, *failure = status == TRM_OK ? error : &ignored;
    const trm_status ended = trm_device_event_await(r->accelerator, *event, failure);
    if (status == TRM_OK) status = ended;
    *event = NULL;
  }
  return status;
}

void trm_residence_free(trm_residence *r) {
  if (r == NULL) return;
  await_all(r, TRM_OK, &(trm_error){0});
  for (uint32_t s = 0; r->slots != NULL && s < r->schedule->num_slots; ++s) drop(&r->slots[s]);
  trm_free(r->slots);
  trm_free(r->arrays);
  trm_free(r->may_donate);
  trm_free(r);
}

static trm_status bring_one_home(trm_residence *r, uint32_t slot, trm_error *error) {
  trm_resident *resident = resident_of(r, slot);
  if (!resident->is_stale) return TRM_OK;
  TRY(trm_device_array_read(resident->array, r->places[slot], error));
  resident->is_stale = false;
  ++r->arrays_down;
  r->bytes_down += trm_device_array_bytes(resident->array);
  return TRM_OK;
}

/* The slot's array, of that shape and on this replica's device. */
static trm_status send(trm_residence *r, uint32_t slot, const trm_shape *shape, uint64_t version,
                       trm_error *error) {
  trm_resident *resident = resident_of(r, slot);
  if (resident->array != NULL && trm_device_array_fits(resident->array, r->replica, shape)) {
    return TRM_OK;
  }
  TRY(bring_one_home(r, slot, error));
  drop(resident);
  TRY(trm_device_array_create(r->accelerator, r->replica, shape, r->places[slot], &resident->array,
                              error));
  resident->version = version;
  ++r->arrays_up;
  r->bytes_up += trm_shape_bytes(shape);
  return TRM_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

trm_status trm_residence_bring_home(trm_residence *r, const trm_step *step, trm_error *error) {
  for (uint32_t k = 0; k < step->num_operands; ++k) TRY(bring_one_home(r, step->slots[k], error));
  return TRM_OK;
}

/* Frees the arrays of operands whose slots nobody reads after the step. */
static void drop_dead(trm_residence *r, const trm_step *step) {
  for (uint32_t k = 0; k < step->num_operands; ++k) {
    const trm_slot *slot = &r->schedule->slots[r->schedule->slots[step->slots[k]].parent];
    if (slot->kind == TRM_SLOT_ARENA && slot->end == step->time)
      drop(resident_of(r, step->slots[k]));
  }
}

void trm_residence_wrote(trm_residence *r, const trm_step *step) {
  if (step->num_ranges > 0) return; /* its own steps have written */
  for (uint32_t k = 0; k < step->num_results; ++k) {
    drop(resident_of(r, step->slots[step->num_operands + k]));
  }
  drop_dead(r, step);
}

bool trm_residence_copy(trm_residence *r, const trm_step *step) {
  if (step->num_operands != 1 || step->num_results != 1) return false;
  const trm_resident *from = resident_of(r, step->slots[0]);
  trm_resident *to = resident_of(r, step->slots[1]);
  if (from == to) return true;
  if (from->array == NULL) return false;
  trm_device_array_retain(from->array);
  trm_device_array_release(to->array);
  *to = (trm_resident){.array = from->array, .is_stale = true};
  drop_dead(r, step);
  return true;
}

/* Sets may_donate of operands whose slots results take, unless they are read twice. These are never
 * inputs of the run, so that a failure loses nothing. */
static void find_donated(trm_residence *r, const trm_step *step) {
  const uint32_t operands = step->num_operands, slots = operands + step->num_results;
  for (uint32_t k = 0; k < operands; ++k) ++resident_of(r, step->slots[k])->reads;
  for (uint32_t k = operands; k < slots; ++k) resident_of(r, step->slots[k])->is_written = true;
  for (uint32_t k = 0; k < operands; ++k) {
    const trm_resident *one = resident_of(r, step->slots[k]);
    r->may_donate[k] =
        one->reads == 1 && one->is_written && !trm_device_array_is_shared(one->array);
  }
  for (uint32_t k = 0; k < slots; ++k) {
    trm_resident *one = resident_of(r, step->slots[k]);
    one->reads = 0, one->is_written = false;
  }
}

static trm_status start(trm_residence *r, const trm_step *step, const trm_region_kernel *region,
                        const uint64_t *versions, trm_error *error) {
  trm_device_event **oldest = &r->under_way[r->next];
  for (uint32_t k = 0; k < step->num_operands; ++k) {
    const trm_shape *shape = trm_operand_shape(&region->request, k);
    TRY(send(r, step->slots[k], shape, versions[k], error));
  }
  trm_device_event *last = *oldest;
  *oldest = NULL;
  TRY(trm_device_event_await(r->accelerator, last, error));
  for (uint32_t k = 0; k < step->num_operands; ++k) {
    r->arrays[k] = resident_of(r, step->slots[k])->array;
  }
  find_donated(r, step);
  const trm_region_call call = {.replica = r->replica,
                                .num_operands = step->num_operands,
                                .operands = r->arrays,
                                .results = r->arrays + step->num_operands,
                                .may_donate = r->may_donate,
                                .shape = &region->request.instruction->shape};
  r->next = (r->next + 1) % TRM_RUNS_AHEAD;
  return trm_region_run(region->compiled, &call, oldest, error);
}

trm_status trm_residence_run(trm_residence *r, const trm_step *step, const uint64_t *versions,
                             bool waits, trm_error *error) {
  const trm_region_kernel *region = trm_region_kernel_of(step->kernel);
  trm_device_array **results = r->arrays + step->num_operands;
  memset(results, 0, step->num_results * sizeof *results);
  const trm_status status = start(r, step, region, versions, error);
  drop_dead(r, step);
  for (uint32_t k = 0; k < step->num_results; ++k) {
    trm_resident *resident = resident_of(r, step->slots[step->num_operands + k]);
    drop(resident);
    *resident = (trm_resident){.array = results[k], .is_stale = results[k] != NULL};
  }
  return waits ? await_all(r, status, error) : status;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* What was left on the accelerator for an input, or is known to be equal to it. */
static trm_status find_input(trm_residence *r, uint32_t slot, uint64_t version, trm_error *error) {
  trm_resident *resident = &r->slots[slot];
  bool is_home = true;
  trm_device_array *left = trm_left_find(r->places[slot], &is_home);
  if (left != NULL && trm_device_array_bytes(left) == r->schedule->slots[slot].bytes) {
    drop(resident);
    *resident = (trm_resident){.array = left, .version = version, .is_stale = !is_home};
    return TRM_OK;
  }
  trm_device_array_release(left);
  TRY(trm_fetch_left(r->places[slot], error));
  if (version == 0 || version != resident->version) drop(resident);
  resident->is_stale = false; /* nothing is left, so the host has the contents */
  return TRM_OK;
}

trm_status trm_residence_begin(trm_residence *r, void *const *places, const uint64_t *versions,
                               trm_error *error) {
  const trm_schedule *schedule = r->schedule;
  r->places = places;
  r->arrays_up = r->bytes_up = r->arrays_down = r->bytes_down = 0;
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    const trm_slot *slot = &schedule->slots[s];
    if (slot->parent != s || slot->bytes == 0) continue;
    if (slot->kind == TRM_SLOT_OUTPUT) trm_forget_left(places[s]);
    if (slot->kind != TRM_SLOT_INPUT) continue;
    TRY(find_input(r, s, versions != NULL ? versions[slot->number] : 0, error));
  }
  return TRM_OK;
}

static trm_status settle_output(trm_residence *r, uint32_t s, const bool *leaves,
                                trm_error *error) {
  const trm_resident *resident = &r->slots[s];
  if (!resident->is_stale) return TRM_OK;
  if (leaves[r->schedule->slots[s].number]) {
    return trm_left_put(r->places[s], resident->array, error);
  }
  return bring_one_home(r, s, error);
}

trm_status trm_residence_end(trm_residence *r, trm_status status, const bool *leaves,
                             trm_error *error) {
  const trm_schedule *schedule = r->schedule;
  status = trm_residence_give(r, NULL, status, error);
  status = await_all(r, status, error);
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    const trm_slot *slot = &schedule->slots[s];
    if (slot->parent != s || slot->kind == TRM_SLOT_CONSTANT || slot->kind == TRM_SLOT_INPUT) {
      continue;
    }
    if (slot->kind == TRM_SLOT_OUTPUT && status == TRM_OK) {
      status = settle_output(r, s, leaves, error);
    }
    drop(&r->slots[s]);
  }
  if (status == TRM_OK) {
    trm_log(TRM_LOG_INFO, "ACCELERATOR",
            "the run of %s moved %" PRIu64 " arrays of %" PRIu64 " bytes to %s, %" PRIu64
            " arrays of %" PRIu64 " bytes from there",
            schedule->module->name, r->arrays_up, r->bytes_up, trm_accelerator_name(r->accelerator),
            r->arrays_down, r->bytes_down);
  }
  return status;
}
