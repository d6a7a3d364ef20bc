/* Owns: the error bars of a program's cycles and bytes, from the kinds of op that these consist of.
 *
 * Each kind has a bar in error_bars.def. The bar of a figure is the mean of its parts' bars, by
 * their shares, as if all kinds erred to the same side at once: it is never narrower than if they
 * erred independently. Inputs and constants have the bytes of their shapes, and no bar. */

#include "base/cycles.h"
#include "base/sized.h"
#include "ipu/program/draft.h"

/* A matmul of fewer multiplications is small. */
static const double small_matmul = 1 << 23;

static const char *const names[] = {
#define ERROR_KIND(id, name) name,
#include "ipu/program/error_kinds.def"
#undef ERROR_KIND
};
static const char *const mixed_names[] = {
#define ERROR_KIND(id, name) name " and others",
#include "ipu/program/error_kinds.def"
#undef ERROR_KIND
};

typedef struct bar {
  double low, high;
} bar;

static const struct {
  bar cycles, bytes;
} bars[TRM_NUM_ERROR_KINDS] = {
#define ERROR_BAR(id, cycles_low, cycles_high, bytes_low, bytes_high) \
  [TRM_ERROR_##id] = {{cycles_low, cycles_high}, {bytes_low, bytes_high}},
#include "ipu/program/error_bars.def"
#undef ERROR_BAR
};

/* ---- Kinds ----------------------------------------------------------------------------------- */

static trm_error_kind kind_of_convolution(const trm_instruction *instruction) {
  const trm_convolution *c = instruction->convolution;
  if (c->feature_group_count > 1 || c->batch_group_count > 1) return TRM_ERROR_GROUPED;
  double window = 1, output = 1;
  for (int32_t d = 0; d < c->spatial_rank; ++d) {
    window *= (double)instruction->window->dims[d].size;
    output *= (double)instruction->shape.dims[c->output_spatial[d]];
  }
  return window == 1 || output == 1 ? TRM_ERROR_POINTWISE : TRM_ERROR_CONVOLUTION;
}

static trm_error_kind kind_of_dot(const trm_computation *computation,
                                  const trm_instruction *instruction) {
  const trm_shape *lhs = &computation->instructions[instruction->operands[0]].shape;
  double multiplications = (double)trm_shape_count(&instruction->shape);
  for (int32_t k = 0; k < instruction->dot->lhs_contracting.count; ++k) {
    multiplications *= (double)lhs->dims[instruction->dot->lhs_contracting.items[k]];
  }
  return multiplications < small_matmul ? TRM_ERROR_SMALL_MATMUL : TRM_ERROR_MATMUL;
}

trm_error_kind trm_error_kind_of(const trm_computation *computation,
                                 const trm_instruction *instruction) {
  if (instruction->opcode == TRM_OP_CUSTOM_CALL && instruction->call_id == TRM_CALL_MULTI_CONV) {
    return TRM_ERROR_CONVOLUTION;
  }
  switch (trm_instruction_acts_as(instruction)) {
    case TRM_OP_CONVOLUTION: return kind_of_convolution(instruction);
    case TRM_OP_DOT: return kind_of_dot(computation, instruction);
    case TRM_OP_REDUCE:
    case TRM_OP_BATCH_NORM_TRAINING:
    case TRM_OP_BATCH_NORM_GRAD: return TRM_ERROR_REDUCTION;
    case TRM_OP_REDUCE_WINDOW:
    case TRM_OP_SELECT_AND_SCATTER: return TRM_ERROR_POOLING;
    case TRM_OP_GATHER:
    case TRM_OP_SCATTER: return TRM_ERROR_LOOKUP;
    default: return TRM_ERROR_OTHER;
  }
}

static trm_error_kind kind_of(const trm_program *program, uint32_t source) {
  return source == TRM_NO_INDEX ? TRM_ERROR_OTHER : program->sources[source].error_kind;
}

trm_error_kind trm_error_kind_of_step(const trm_program *program, const trm_program_step *step) {
  switch (step->type) {
    case TRM_STEP_TYPE_STREAM_COPY_BEGIN:
    case TRM_STEP_TYPE_STREAM_COPY_MID:
    case TRM_STEP_TYPE_STREAM_COPY_END: return TRM_ERROR_HOST;
    case TRM_STEP_TYPE_GLOBAL_EXCHANGE:
    case TRM_STEP_TYPE_CROSS_REPLICA_COPY: return TRM_ERROR_OTHER;
    default: return kind_of(program, step->source);
  }
}

int64_t trm_error_cycles(trm_error_kind kind, double cycles, bool high) {
  const bar *b = &bars[kind].cycles;
  return trm_limit_cycles(cycles * (1 + (high ? b->high : b->low)) + 0.5);
}

/* ---- Figures --------------------------------------------------------------------------------- */

static trm_error_parts cycles_of(const trm_program *program) {
  trm_error_parts p = {0};
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    const trm_program_step *step = &program->steps[s];
    if (step->end != s + 1) continue;
    p.of[trm_error_kind_of_step(program, step)] += step->executions * (double)step->cycles;
  }
  return p;
}

/* The bytes that the IPU of the fullest tile holds at that tile's fullest step. */
static trm_error_parts bytes_of(const trm_program *program) {
  trm_error_parts p = {0};
  const uint32_t ipu = program->memory.worst_tile / program->tiles_per_ipu;
  const uint32_t step = program->memory.worst_step;
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    const bool alive =
        variable->always_live || (variable->live.begin <= step && step < variable->live.end);
    if (!alive || variable->mapping.kind == TRM_MAPPING_NONE || variable->mapping.ipu != ipu) {
      continue;
    }
    const bool known = variable->is_input || variable->category == TRM_CATEGORY_CONSTANT;
    *(known ? &p.known : &p.of[kind_of(program, variable->source)]) +=
        (double)variable->total_bytes;
  }
  return p;
}

/* The bar of a figure with these parts. */
static bar mix(const trm_error_parts *p, bool bytes) {
  bar mixed = {0, 0};
  double whole = p->known;
  for (int k = 0; k < TRM_NUM_ERROR_KINDS; ++k) {
    const bar *b = bytes ? &bars[k].bytes : &bars[k].cycles;
    whole += p->of[k];
    mixed.low += p->of[k] * b->low;
    mixed.high += p->of[k] * b->high;
  }
  if (whole <= 0) return (bar){0, 0};
  return (bar){mixed.low / whole, mixed.high / whole};
}

/* The kind that most of a figure consists of. */
static const char *name_of(const trm_error_parts *p) {
  double whole = p->known;
  int most = TRM_ERROR_OTHER;
  for (int k = 0; k < TRM_NUM_ERROR_KINDS; ++k) {
    whole += p->of[k];
    if (p->of[k] > p->of[most]) most = k;
  }
  const bool is_plain = most == TRM_ERROR_OTHER || p->of[most] + p->known >= 0.7 * whole;
  return is_plain ? names[most] : mixed_names[most];
}

void trm_program_add_error_bars(trm_program *program) {
  trm_program_totals *t = &program->totals;
  program->cycles_by_kind = cycles_of(program);
  program->bytes_by_kind = bytes_of(program);
  const bar c = mix(&program->cycles_by_kind, false);
  const double wanted = program->options.model_error;
  const bar b = wanted >= 0 ? (bar){-wanted, wanted} : mix(&program->bytes_by_kind, true);
  t->cycles_low = trm_limit_cycles((double)t->cycles * (1 + c.low));
  t->cycles_high = trm_limit_cycles((double)t->cycles * (1 + c.high));
  t->worst_tile_bytes_low = (int64_t)((double)t->worst_tile_bytes * (1 + b.low));
  t->worst_tile_bytes_high = (int64_t)((double)t->worst_tile_bytes * (1 + b.high));
  t->is_close =
      t->worst_tile_bytes_low <= t->bytes_per_tile && t->worst_tile_bytes_high > t->bytes_per_tile;
  t->cycles_like = name_of(&program->cycles_by_kind);
  t->bytes_like = name_of(&program->bytes_by_kind);
}

bool trm_program_kind_get(const trm_program *program, size_t i, trm_program_kind *out_kind) {
  if (i == TRM_NUM_ERROR_KINDS) {
    const trm_program_kind known = {.name = "inputs and constants",
                                    .bytes = (int64_t)program->bytes_by_kind.known};
    return TRM_GIVE(out_kind, known);
  }
  if (i > TRM_NUM_ERROR_KINDS) return false;
  const trm_program_kind kind = {.name = names[i],
                                 .cycles = trm_limit_cycles(program->cycles_by_kind.of[i]),
                                 .bytes = (int64_t)program->bytes_by_kind.of[i],
                                 .cycles_low = bars[i].cycles.low,
                                 .cycles_high = bars[i].cycles.high,
                                 .bytes_low = bars[i].bytes.low,
                                 .bytes_high = bars[i].bytes.high};
  return TRM_GIVE(out_kind, kind);
}
