/* Owns: the vertices of a plan: their states and edges. */
#include <string.h>

#include "poplar/plan.h"

/* Makes room in the image; *out_place is its place there. */
static trm_status reserve(trm_poplar_plan *plan, size_t bytes, size_t align, size_t *out_place,
                          trm_poplar_error *error) {
  if (align == 0 || align > 64 || (align & (align - 1)) != 0) align = 64;
  size_t begin = (plan->image.count + align - 1) & ~(align - 1);
  while (plan->image.capacity < begin + bytes) {
    if (!trm_vector_grow((void **)&plan->image.items, &plan->image.capacity, 1)) {
      THROW_NO_MEMORY("the state of a vertex");
    }
  }
  memset(plan->image.items + plan->image.count, 0, begin + bytes - plan->image.count);
  plan->image.count = begin + bytes;
  *out_place = begin;
  return TRM_OK;
}

/* The address at `place` of the image becomes base + offset. Places and offsets in the image begin
 * at the block when the plan is finished. */
static trm_status patch(trm_poplar_plan *plan, size_t place, uint32_t base, int64_t offset,
                        trm_poplar_error *error) {
  const trm_poplar_patch one = {base, offset, plan->image_begin + place};
  if (!VECTOR_PUSH(&plan->patches, one)) THROW_NO_MEMORY("the state of a vertex");
  return TRM_OK;
}

/* A patch with an address in the image. */
static trm_status patch_inner(trm_poplar_plan *plan, size_t place, size_t target,
                              trm_poplar_error *error) {
  return patch(plan, place, trm_poplar_block(plan), (int64_t)(plan->image_begin + target), error);
}

static void write_size(trm_poplar_plan *plan, size_t place, uint64_t size) {
  memcpy(plan->image.items + place + offsetof(trm_codelet_span, size), &size, sizeof size);
}

/* The edges of a vertex that its buffers are moved to after it ran. The moves before it are planned
 * at once, so that those of each kind follow each other. */
typedef struct scatter {
  trm_poplar_run buffer;
  const trm_poplar_tensor *tensor;
} scatter;

/* A vertex while it is planned. */
typedef struct planned {
  trm_poplar_plan *plan;
  const trm_poplar_vertex *vertex;
  uint64_t *bytes; /* of the set */
  VECTOR(scatter) out;
} planned;

/* Connects the address at `place` to a tensor. */
static trm_status connect(planned *v, size_t place, uint8_t layout, const trm_codelet_field *field,
                          const trm_poplar_tensor *tensor, trm_poplar_error *error) {
  trm_poplar_plan *plan = v->plan;
  const size_t size = trm_poplar_size(tensor), bytes = trm_poplar_bytes(tensor);
  if (layout == TRM_CODELET_SPAN) write_size(plan, place, tensor->elements / field->width);
  *v->bytes += bytes;
  if (bytes == 0) return TRM_OK;
  const bool is_aligned = field->width == 1 && field->min_align <= size;
  if (trm_poplar_tensor_is_contiguous(tensor) &&
      (is_aligned || tensor->runs->offset * (int64_t)size % 16 == 0)) {
    return patch(plan, place, tensor->runs->variable, tensor->runs->offset * (int64_t)size, error);
  }
  const int64_t offset = trm_poplar_plan_buffer(plan, bytes);
  const uint32_t base = trm_poplar_buffers(plan);
  TRY(patch(plan, place, base, offset, error));
  const trm_poplar_run buffer = {base, 0, offset / (int64_t)size, tensor->elements, 1};
  TRY(trm_poplar_plan_move(plan, tensor->runs, tensor->num_runs, &buffer, 1, size, error));
  const scatter one = {buffer, tensor};
  const bool is_output = (field->direction & TRM_CODELET_OUTPUT) != 0;
  if (is_output && !VECTOR_PUSH(&v->out, one)) THROW_NO_MEMORY("an edge");
  return TRM_OK;
}

static trm_status connect_list(planned *v, size_t place, uint32_t f, trm_poplar_error *error) {
  const trm_codelet_field *field = &v->vertex->codelet->fields[f];
  const uint64_t count = trm_poplar_list_size(v->vertex, f);
  const size_t size = field->inner == TRM_CODELET_SPAN ? sizeof(trm_codelet_span) : sizeof(void *);
  if (field->outer == TRM_CODELET_SPAN) write_size(v->plan, place, count);
  size_t list;
  TRY(reserve(v->plan, (size_t)count * size + 1, sizeof(void *), &list, error));
  TRY(patch_inner(v->plan, place, list, error));
  for (uint64_t i = 0; i < count; ++i) {
    const trm_poplar_binding *one = trm_poplar_bound(v->vertex, f, (int64_t)i);
    TRY(connect(v, list + (size_t)i * size, field->inner, field, one->tensor, error));
  }
  return TRM_OK;
}

static trm_status set_value(trm_poplar_plan *plan, size_t place, const trm_codelet_field *field,
                            const trm_poplar_binding *binding, trm_poplar_error *error) {
  if (binding == NULL || binding->data == NULL) return TRM_OK;
  const size_t size = trm_dtype_size((trm_dtype)field->dtype) * (size_t)binding->count;
  size_t data = place;
  if (field->kind == TRM_CODELET_VALUES) {
    TRY(reserve(plan, size + 1, 16, &data, error));
    if (field->outer == TRM_CODELET_SPAN) write_size(plan, place, binding->count / field->width);
    TRY(patch_inner(plan, place, data, error));
  }
  memcpy(plan->image.items + data, binding->data, size);
  return TRM_OK;
}

static trm_status plan_fields(planned *v, size_t state, trm_poplar_error *error) {
  const trm_codelet_vertex *codelet = v->vertex->codelet;
  for (uint32_t f = 0; f < codelet->num_fields; ++f) {
    const trm_codelet_field *field = &codelet->fields[f];
    const size_t place = state + field->offset;
    const trm_poplar_binding *whole = trm_poplar_bound(v->vertex, f, -1);
    if (field->kind == TRM_CODELET_LISTS) {
      TRY(connect_list(v, place, f, error));
    } else if (field->kind >= TRM_CODELET_EDGE) {
      TRY(connect(v, place, field->outer, field, whole->tensor, error));
    } else {
      TRY(set_value(v->plan, place, field, whole, error));
    }
  }
  return TRM_OK;
}

static trm_status plan_vertex(planned *v, trm_poplar_error *error) {
  trm_poplar_plan *plan = v->plan;
  const trm_codelet_vertex *codelet = v->vertex->codelet;
  TRY(trm_poplar_check_vertex(plan->graph->core, v->vertex, error));
  size_t state;
  TRY(reserve(plan, codelet->state_bytes + 1, codelet->state_align, &state, error));
  trm_poplar_call call = {.run = codelet->run,
                          .name = codelet->name,
                          .workers = codelet->workers,
                          .state = plan->image_begin + state,
                          .first_in = (uint32_t)plan->moves.count};
  TRY(plan_fields(v, state, error));
  call.first_out = (uint32_t)plan->moves.count;
  call.num_in = call.first_out - call.first_in;
  call.num_out = (uint32_t)v->out.count;
  VECTOR_EACH(const scatter, one, v->out) {
    TRY(trm_poplar_plan_move(plan, &one->buffer, 1, one->tensor->runs, one->tensor->num_runs,
                             trm_poplar_size(one->tensor), error));
  }
  if (!VECTOR_PUSH(&plan->calls, call)) THROW_NO_MEMORY("a vertex");
  return TRM_OK;
}

trm_status trm_poplar_plan_set(trm_poplar_plan *plan, uint32_t number, trm_poplar_error *error) {
  trm_poplar_set *set = &plan->sets[number];
  if (set->is_planned) return TRM_OK;
  const trm_poplar_core *core = plan->graph->core;
  const trm_poplar_compute_set *given = &core->compute_sets.items[number];
  set->is_planned = true;
  set->first = plan->calls.count;
  set->count = (uint32_t)given->vertices.count;
  VECTOR_EACH(const uint32_t, number_of, given->vertices) {
    planned v = {.plan = plan, .vertex = &core->vertices.items[*number_of], .bytes = &set->bytes};
    const trm_status status = plan_vertex(&v, error);
    VECTOR_FREE(&v.out);
    TRY(status);
  }
  return trm_poplar_check_overlap(core, number, error);
}
