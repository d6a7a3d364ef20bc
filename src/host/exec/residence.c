/* Owns: moving values between the host and the accelerator. */
#include "host/exec/residence.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "tremula/log.h"

static trm_resident *resident_of(trm_residence *r, uint32_t slot) {
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
  const trm_region_kernel *region = trm_schedule_region(schedule);
  if (region == NULL) return TRM_OK;
  trm_residence *r = trm_allocate_zeroed(1, sizeof *r + schedule->num_slots * sizeof *r->slots);
  CHECK_MEMORY(r, "an accelerator's arrays");
  r->schedule = schedule;
  r->accelerator = trm_region_accelerator(region->compiled);
  r->replica = replica;
  *out = r;
  return TRM_OK;
}

/* Gives the first failure: `status`, or what the regions that are under way end with. */
static trm_status await_all(trm_residence *r, trm_status status, trm_error *error) {
  for (uint32_t i = 0; i < TRM_RUNS_AHEAD; ++i) {
    trm_error ignored, *failure = status == TRM_OK ? error : &ignored;
    const trm_status ended = trm_device_event_await(r->accelerator, r->under_way[i], failure);
    if (status == TRM_OK) status = ended;
    r->under_way[i] = NULL;
  }
  return status;
}

void trm_residence_free(trm_residence *r) {
  if (r == NULL) return;
  await_all(r, TRM_OK, &(trm_error){0});
  for (uint32_t s = 0; s < r->schedule->num_slots; ++s) drop(&r->slots[s]);
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

/* Sees that the slot has an array of that shape on this replica's device. data: its contents on the
 * host, which a view (schedule.h) has in other places than the slot. */
static trm_status send(trm_residence *r, uint32_t slot, const trm_shape *shape, const void *data,
                       uint64_t version, trm_error *error) {
  trm_resident *resident = resident_of(r, slot);
  if (resident->array != NULL && trm_device_array_fits(resident->array, r->replica, shape)) {
    return TRM_OK;
  }
  TRY(bring_one_home(r, slot, error));
  drop(resident);
  TRY(trm_device_array_create(r->accelerator, r->replica, shape, data, &resident->array, error));
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

/* arrays: of the operands, then of the results. */
static trm_status start(trm_residence *r, const trm_step *step, const trm_kernel_call *call,
                        trm_device_array **arrays, trm_error *error) {
  const trm_region_kernel *region = trm_region_kernel_of(step->kernel);
  trm_device_event *oldest = r->under_way[0];
  for (uint32_t k = 0; k < step->num_operands; ++k) {
    const trm_shape *shape = trm_operand_shape(&region->request, k);
    TRY(send(r, step->slots[k], shape, call->operands[k], call->versions[k], error));
    /* now, because a reshape has the same slot, and may be the next operand */
    arrays[k] = trm_device_array_retain(resident_of(r, step->slots[k])->array);
  }
  memmove(r->under_way, r->under_way + 1, sizeof r->under_way - sizeof oldest);
  r->under_way[TRM_RUNS_AHEAD - 1] = NULL;
  TRY(trm_device_event_await(r->accelerator, oldest, error));
  /* What nobody reads later has then one reference, and the region may overwrite it. Inputs of the
   * run keep theirs, so that a failure loses nothing. */
  trm_residence_wrote(r, step);
  return trm_region_run(region->compiled, r->replica, step->num_operands,
                        &region->request.instruction->shape, arrays,
                        &r->under_way[TRM_RUNS_AHEAD - 1], error);
}

trm_status trm_residence_run(trm_residence *r, const trm_step *step, const trm_kernel_call *call,
                             bool waits, trm_error *error) {
  const uint32_t operands = step->num_operands, all = operands + step->num_results;
  trm_device_array **arrays = trm_allocate_zeroed((size_t)all + 1, sizeof *arrays);
  CHECK_MEMORY(arrays, "an accelerator's arrays");
  const trm_status status = start(r, step, call, arrays, error);
  for (uint32_t k = 0; k < operands; ++k) trm_device_array_release(arrays[k]);
  for (uint32_t k = operands; k < all; ++k) {
    trm_resident *resident = resident_of(r, step->slots[k]);
    if (arrays[k] != NULL) *resident = (trm_resident){arrays[k], .is_stale = true};
  }
  trm_free(arrays);
  return waits ? await_all(r, status, error) : status;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* What is resident on the accelerator for an input, or is known to be equal to it. */
static trm_status find_input(trm_residence *r, uint32_t slot, uint64_t version, trm_error *error) {
  trm_resident *resident = &r->slots[slot];
  bool is_home = true;
  trm_device_array *there = trm_resident_find(r->places[slot], &is_home);
  if (there != NULL && trm_device_array_bytes(there) == r->schedule->slots[slot].bytes) {
    drop(resident);
    *resident = (trm_resident){.array = there, .version = version, .is_stale = !is_home};
    return TRM_OK;
  }
  trm_device_array_release(there);
  TRY(trm_fetch_resident(r->places[slot], error));
  if (version == 0 || version != resident->version) drop(resident);
  resident->is_stale = false; /* nothing is there, so the host has the contents */
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
    if (slot->kind == TRM_SLOT_OUTPUT) trm_forget_resident(places[s]);
    if (slot->kind != TRM_SLOT_INPUT) continue;
    TRY(find_input(r, s, versions != NULL ? versions[slot->number] : 0, error));
  }
  return TRM_OK;
}

static trm_status settle_output(trm_residence *r, uint32_t s, const bool *stays, trm_error *error) {
  const trm_resident *resident = &r->slots[s];
  if (!resident->is_stale) return TRM_OK;
  if (stays[r->schedule->slots[s].number]) {
    return trm_resident_put(r->places[s], resident->array, error);
  }
  return bring_one_home(r, s, error);
}

trm_status trm_residence_end(trm_residence *r, trm_status status, const bool *stays,
                             trm_error *error) {
  const trm_schedule *schedule = r->schedule;
  status = trm_residence_flush_outfeeds(r, NULL, status, error);
  status = await_all(r, status, error);
  for (uint32_t s = 0; s < schedule->num_slots; ++s) {
    const trm_slot *slot = &schedule->slots[s];
    if (slot->parent != s || slot->kind == TRM_SLOT_CONSTANT || slot->kind == TRM_SLOT_INPUT) {
      continue;
    }
    if (slot->kind == TRM_SLOT_OUTPUT && status == TRM_OK) {
      status = settle_output(r, s, stays, error);
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
