/* Owns: slices at indices that are known at run time, as HLO's gather and scatter. */
#include <string.h>

#include "poplar/step.h"
#include "tremula/builder.h"

/* A table of `rank` dimensions that is sliced, behind a group dimension or without one. */
typedef struct slicing {
  const trm_poplar_tensor *table, *indices; /* indices: [group,] slice, sliced dimension */
  uint32_t group, rank, num_dims;           /* group: 1 or 0 */
  int64_t dims[TRM_MAX_RANK];               /* of the table, that are sliced */
  int64_t shape[TRM_MAX_RANK];              /* of a slice, with a group dimension of 1 */
  int64_t window[TRM_MAX_RANK];             /* a slice's dimensions in the slices */
} slicing;

static trm_status describe(slicing *s, const uint32_t *dims, const uint64_t *sizes,
                           trm_poplar_error *error) {
  const trm_poplar_tensor *table = s->table, *indices = s->indices;
  if (table == NULL || indices == NULL || table->rank < s->group + s->num_dims) {
    THROW(LIBRARY, "slices of %u dimensions of a tensor that has fewer", s->num_dims);
  }
  s->rank = table->rank - s->group;
  if (indices->rank != s->group + 2 || indices->dims[s->group + 1] != s->num_dims ||
      (s->group > 0 && indices->dims[0] != table->dims[0]) ||
      (indices->dtype != TRM_S32 && indices->dtype != TRM_U32)) {
    THROW(LIBRARY, "indices %s of the type %s for slices of %u dimensions of %s",
          SHAPE_TEXT(indices), trm_dtype_name(indices->dtype), s->num_dims, SHAPE_TEXT(table));
  }
  for (uint32_t d = 0; d < table->rank; ++d) s->shape[d] = (int64_t)table->dims[d];
  if (s->group > 0) s->shape[0] = 1;
  const uint32_t wrong = trm_poplar_first_wrong(dims, s->num_dims, s->rank);
  for (uint32_t i = 0; i < s->num_dims; ++i) {
    if (i == wrong || sizes[i] > table->dims[dims[i] + s->group]) {
      THROW(LIBRARY, "slices of %llu in dimension %u of %s", (unsigned long long)sizes[i], dims[i],
            SHAPE_TEXT(table));
    }
    s->dims[i] = dims[i] + s->group;
    s->shape[s->dims[i]] = (int64_t)sizes[i];
  }
  for (uint32_t d = 0; d < s->rank; ++d) s->window[d] = d + s->group + 1;
  return TRM_OK;
}

static const int64_t first_dim = 0;

int32_t trm_poplar_step_multi_slice(trm_poplar_graph *graph, const trm_poplar_tensor *table,
                                    const trm_poplar_tensor *indices, bool grouped,
                                    const uint32_t *dims, const uint64_t *sizes, uint32_t num_dims,
                                    trm_poplar_program **sequence, const char *name,
                                    trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  slicing s = {.table = table, .indices = indices, .group = grouped, .num_dims = num_dims};
  TRY(describe(&s, dims, sizes, error));
  trm_builder *b;
  TRY(trm_poplar_step_begin("popops.multiSlice", &b, error));
  const trm_axes group = {&first_dim, grouped};
  const trm_gather_spec spec = {.offset_dims = {s.window, (int32_t)s.rank},
                                .start_index_map = {s.dims, (int32_t)num_dims},
                                .slice_sizes = {s.shape, (int32_t)table->rank},
                                .operand_batching_dims = group,
                                .start_indices_batching_dims = group,
                                .index_vector_dim = s.group + 1};
  const trm_value root = trm_build_gather(b, trm_poplar_parameter(b, 0, table),
                                          trm_poplar_parameter(b, 1, indices), &spec);
  const trm_poplar_tensor *operands[] = {table, indices};
  *out_tensor = NULL;
  return trm_poplar_step_finish(graph, b, root, operands, 2, out_tensor, name, sequence, error);
}

/* The function (old, new) -> new. */
static trm_function replaces(trm_builder *b, trm_dtype dtype) {
  const trm_type scalar = {dtype, 0, NULL};
  trm_builder_begin(b, "replaces");
  (void)trm_build_parameter(b, 0, scalar, NULL);
  return trm_builder_end(b, trm_build_parameter(b, 1, scalar, NULL));
}

static trm_status check_update(const slicing *s, const trm_poplar_tensor *slices,
                               const trm_poplar_tensor *scale, int32_t update,
                               trm_poplar_error *error) {
  bool fits = slices != NULL && slices->dtype == s->table->dtype &&
              slices->rank == s->table->rank + 1 &&
              slices->dims[s->group] == s->indices->dims[s->group] &&
              (s->group == 0 || slices->dims[0] == s->table->dims[0]);
  for (uint32_t d = 0; fits && d < s->rank; ++d) {
    fits = slices->dims[s->window[d]] == (uint64_t)s->shape[d + s->group];
  }
  if (!fits) {
    THROW(LIBRARY, "an update of %s with slices %s", SHAPE_TEXT(s->table),
          slices == NULL ? "that are null" : SHAPE_TEXT(slices));
  }
  if (scale != NULL && scale->elements != 1) THROW(LIBRARY, "an update's scale is one number");
  if (update < TRM_POPLAR_UPDATE_SET || update > TRM_POPLAR_UPDATE_MAX) {
    THROW(LIBRARY, "no update has the number %d", update);
  }
  return TRM_OK;
}

int32_t trm_poplar_step_multi_update(trm_poplar_graph *graph, const trm_poplar_tensor *table,
                                     const trm_poplar_tensor *slices,
                                     const trm_poplar_tensor *indices,
                                     const trm_poplar_tensor *scale, int32_t update, bool grouped,
                                     const uint32_t *dims, const uint64_t *sizes, uint32_t num_dims,
                                     trm_poplar_program **sequence, const char *name,
                                     trm_poplar_error *error) {
  static const char *const opcodes[] = {
      [TRM_POPLAR_UPDATE_ADD] = "add", [TRM_POPLAR_UPDATE_MAX] = "maximum"};
  slicing s = {.table = table, .indices = indices, .group = grouped, .num_dims = num_dims};
  TRY(describe(&s, dims, sizes, error));
  TRY(check_update(&s, slices, scale, update, error));
  TRY(trm_poplar_check_written(graph, table, "an update", error));
  trm_builder *b;
  TRY(trm_poplar_step_begin("popops.multiUpdate", &b, error));
  const trm_axes group = {&first_dim, grouped};
  const trm_scatter_spec spec = {.update_window_dims = {s.window, (int32_t)s.rank},
                                 .scatter_dims_to_operand_dims = {s.dims, (int32_t)num_dims},
                                 .input_batching_dims = group,
                                 .scatter_indices_batching_dims = group,
                                 .index_vector_dim = s.group + 1};
  const trm_value into = trm_poplar_parameter(b, 0, table),
                  at = trm_poplar_parameter(b, 1, indices);
  trm_value from = trm_poplar_parameter(b, 2, slices);
  const trm_dtype dtype = table->dtype;
  if (scale != NULL) {
    from = trm_poplar_scaled(b, from, 3, scale, scale->dtype);
    if (scale->dtype != dtype) from = trm_build_convert(b, from, dtype);
  }
  const trm_function combine = update == TRM_POPLAR_UPDATE_SET
                                   ? replaces(b, dtype)
                                   : trm_builder_scalar_function(b, opcodes[update], dtype);
  const trm_value root = trm_build_scatter(b, into, at, from, &spec, combine);
  const trm_poplar_tensor *operands[] = {table, indices, slices, scale};
  trm_poplar_tensor *result = (trm_poplar_tensor *)table;
  return trm_poplar_step_finish(graph, b, root, operands, scale != NULL ? 4 : 3, &result, name,
                                sequence, error);
}
