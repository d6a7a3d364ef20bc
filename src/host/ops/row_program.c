/* Owns: the machine code of the passes of a row program, and running them row by row. */
#include "host/ops/row_program.h"

#include <math.h>
#include <string.h>

#include "host/ops/elementwise/strip_code.h"
#include "host/ops/row_values.h"
#include "host/ops/stream.h"

enum {
  SUM_LANES = 64,
  EXTREME_LANES = 32,
  SUM_PIECE = 1024, /* as sum_f32 of vector.c */
  MAX_RUNNING = 16, /* of one pass */
  MAX_STEPS = 2 * ROW_MAX_PASSES + 1,
  MAX_GROUP = 8,
  GROUP_BYTES = 16 * 1024 /* of the arrays of a group's rows: they stay in the first-level cache */
};

/* Generated code that computes values of one pass, or the numbers of a row between two. */
typedef struct step {
  trm_strip_code *code; /* NULL: there is nothing to compute */
  uint32_t *operands;   /* value by operand of the code */
  uint32_t *results;    /* value by result; of a running one the reduction */
  uint32_t num_results, num_running;
  int64_t count, piece;               /* elements; those of one call */
  uint32_t first_slot;                /* of its slots in those of the program */
  uint32_t *advancing, num_advancing; /* slots of arrays that a call reads or writes a piece of */
} step;

struct trm_row_program {
  const trm_vector_ops *ops;
  row_values values;
  uint32_t num_steps;
  step steps[MAX_STEPS];              /* numbers before pass 0, pass 0, numbers before pass 1 ... */
  uint32_t result_of[ROW_MAX_VALUES]; /* by value; ROW_NO_VALUE: none */
  size_t place[ROW_MAX_VALUES];       /* in the scratch, of what is no operand and no result */
  size_t lanes[ROW_MAX_VALUES];       /* in the scratch, of a reduction */
  bool is_streamed[ROW_MAX_RESULTS];  /* written past the caches */
  uint32_t num_slots;
  /* Rows of which each step is done before the next step: the end of a row's sums is a chain of
   * dependent additions, which overlaps with the next row. */
  int64_t group;
  size_t slots_offset, moving_offset, scratch_bytes;
};

/* Row 0 of a value, or with in_group the first row of the group in the scratch, and the distance to
 * the next row. */
typedef struct rows_place {
  char *start;
  size_t row_bytes;
  bool in_group;
} rows_place;

/* A pointer that follows the rows. */
typedef struct moving {
  void **where;
  rows_place place;
} moving;

/* ---- Making the steps ----------------------------------------------------------------------- */

typedef struct maker {
  const trm_kernel_request *request;
  trm_row_program *program;
  trm_arena *arena;  /* the program's */
  trm_arena scratch; /* of computations, of which the code keeps nothing */
  int64_t count;     /* elements of the computation at hand */
  trm_computation computation;
  uint32_t inside[ROW_MAX_VALUES]; /* instruction by value */
  uint32_t capacity;
  step *step;
} maker;

static trm_status add_instruction(maker *m, trm_instruction instruction, const uint32_t *operands,
                                  uint32_t *out_index, trm_error *error) {
  trm_computation *c = &m->computation;
  if (c->num_instructions == m->capacity) FAIL(INTERNAL, "a row program is too long");
  if (instruction.num_operands > 0) {
    instruction.operands =
        trm_arena_copy(&m->scratch, operands, instruction.num_operands * sizeof *operands);
    CHECK_MEMORY(instruction.operands, "rows");
  }
  c->instructions[c->num_instructions] = instruction;
  *out_index = c->num_instructions++;
  return TRM_OK;
}

static trm_status shape_of(maker *m, trm_dtype dtype, bool is_number, trm_shape *out,
                           trm_error *error) {
  if (!trm_shape_make(&m->scratch, dtype, is_number ? 0 : 1, &m->count, out))
    FAIL_NO_MEMORY("rows");
  return TRM_OK;
}

/* The instruction of a value that the step reads: a parameter, or a constant. */
static trm_status bring_value(maker *m, uint32_t v, trm_error *error) {
  if (m->inside[v] != ROW_NO_VALUE) return TRM_OK;
  const row_value *value = &m->program->values.items[v];
  const bool is_number =
      value->extent == EXTENT_ONE || (value->extent == EXTENT_ROWS && m->count > 1);
  trm_instruction o = {.opcode = TRM_OP_PARAMETER};
  TRY(shape_of(m, value->dtype, is_number, &o.shape, error));
  if (value->kind == ROW_CONSTANT) {
    o.opcode = TRM_OP_CONSTANT;
    o.literal = value->instruction->literal;
  } else {
    o.number = m->computation.num_parameters;
    m->step->operands[m->computation.num_parameters++] = v;
  }
  TRY(add_instruction(m, o, NULL, &m->inside[v], error));
  if (value->kind != ROW_CONSTANT)
    m->computation.parameters[m->computation.num_parameters - 1] = m->inside[v];
  if (!is_number) return TRM_OK;
  trm_instruction broadcast = {.opcode = TRM_OP_BROADCAST, .num_operands = 1};
  TRY(shape_of(m, value->dtype, false, &broadcast.shape, error));
  const uint32_t from = m->inside[v];
  return add_instruction(m, broadcast, &from, &m->inside[v], error);
}

static bool is_step_of(const row_value *value, uint32_t pass, bool is_numbers) {
  return value->kind == ROW_OPERATION && value->pass == pass &&
         (value->extent == EXTENT_ROWS) == is_numbers;
}

/* Whether the value is computed where the caller wants it. */
static bool is_in_result(const trm_row_program *program, uint32_t v) {
  return program->result_of[v] != ROW_NO_VALUE;
}

static bool is_read_after(const trm_row_program *program, uint32_t v, uint32_t pass) {
  for (uint32_t u = 0; u < program->values.count; ++u) {
    const row_value *user = &program->values.items[u];
    if (user->kind != ROW_OPERATION || user->pass <= pass) continue;
    for (uint32_t k = 0; k < user->instruction->num_operands; ++k)
      if (user->operands[k] == v) return true;
  }
  return false;
}

static bool is_read_in(const trm_row_program *program, uint32_t v, uint32_t pass) {
  for (uint32_t u = 0; u < program->values.count; ++u) {
    const row_value *user = &program->values.items[u];
    if (user->kind == ROW_REDUCTION && user->operands[0] == v && user->pass == pass + 1)
      return true;
    if (user->kind != ROW_OPERATION || user->extent == EXTENT_ROWS || user->pass != pass) continue;
    for (uint32_t k = 0; k < user->instruction->num_operands; ++k)
      if (user->operands[k] == v) return true;
  }
  return false;
}

/* How far ahead the pass brings rows of the value to the cache, in bytes: the second pass over a
 * large array brings the next group, so that the first one finds it there. */
static uint32_t bytes_ahead(const maker *m, uint32_t v, uint32_t pass) {
  const row_value *value = &m->program->values.items[v];
  if (value->kind != ROW_OPERAND || value->extent != EXTENT_ALL ||
      trm_shape_bytes(trm_operand_shape(m->request, value->number)) < TRM_STREAM_LEAST_BYTES)
    return 0;
  uint32_t earlier = 0;
  for (uint32_t p = 0; p < pass; ++p) earlier += is_read_in(m->program, v, p);
  const int64_t elements = m->program->group * m->program->values.n;
  return earlier == 1 ? (uint32_t)elements * (uint32_t)trm_dtype_size(value->dtype) : 0;
}

/* Room in the scratch. */
static size_t reserve(trm_row_program *program, size_t bytes) {
  const size_t at = program->scratch_bytes;
  program->scratch_bytes += (bytes + 63) & ~(size_t)63;
  return at;
}

/* The bytes of a row of a value in the scratch. */
static size_t scratch_row_bytes(const trm_row_program *program, uint32_t v) {
  const row_value *value = &program->values.items[v];
  const size_t count = value->extent == EXTENT_ROWS ? 1 : (size_t)program->values.n;
  return (count * trm_dtype_size(value->dtype) + 63) & ~(size_t)63;
}

static size_t reserve_rows(trm_row_program *program, uint32_t v) {
  return reserve(program, (size_t)program->group * scratch_row_bytes(program, v));
}

/* The results of the step: what is kept, then what is reduced. */
static trm_status add_results(maker *m, uint32_t pass, bool is_numbers, trm_opcode *running,
                              trm_error *error) {
  trm_row_program *program = m->program;
  uint32_t roots[ROW_MAX_VALUES], num = 0;
  for (uint32_t v = 0; v < program->values.count; ++v) {
    const row_value *value = &program->values.items[v];
    if (!is_step_of(value, pass, is_numbers)) continue;
    const bool is_result = program->result_of[v] != ROW_NO_VALUE;
    const bool is_read =
        is_read_after(program, v, pass) || (is_numbers && is_read_in(program, v, pass));
    if (!is_result && !is_read) continue;
    if (!is_in_result(program, v)) program->place[v] = reserve_rows(program, v);
    running[num] = TRM_NUM_OPCODES;
    m->step->results[num] = v;
    roots[num++] = m->inside[v];
  }
  for (uint32_t v = 0; v < program->values.count && !is_numbers; ++v) {
    const row_value *value = &program->values.items[v];
    if (value->kind != ROW_REDUCTION || value->pass != pass + 1) continue;
    TRY(bring_value(m, value->operands[0], error));
    program->lanes[v] = reserve(program, SUM_LANES * sizeof(float));
    if (!is_in_result(program, v)) program->place[v] = reserve_rows(program, v);
    if (value->reduction == TRM_OP_ADD) m->step->piece = SUM_PIECE;
    ++m->step->num_running;
    running[num] = value->reduction;
    m->step->results[num] = v;
    roots[num++] = m->inside[value->operands[0]];
  }
  m->step->num_results = num;
  if (num == 0) return TRM_OK;
  trm_instruction tuple = {.opcode = TRM_OP_TUPLE, .num_operands = num};
  trm_shape *elements = ARENA_NEW(&m->scratch, trm_shape, num);
  CHECK_MEMORY(elements, "rows");
  for (uint32_t i = 0; i < num; ++i) elements[i] = m->computation.instructions[roots[i]].shape;
  tuple.shape = trm_shape_of_tuple((int32_t)num, elements);
  return add_instruction(m, tuple, roots, &m->computation.root, error);
}

static trm_status begin_step(maker *m, step *out, int64_t count, trm_error *error) {
  const uint32_t most = 4 * ROW_MAX_VALUES;
  for (uint32_t v = 0; v < ROW_MAX_VALUES; ++v) m->inside[v] = ROW_NO_VALUE;
  m->count = count;
  m->step = out;
  m->capacity = most;
  out->count = out->piece = count;
  m->computation = (trm_computation){.name = "row"};
  m->computation.instructions = ARENA_NEW(&m->scratch, trm_instruction, most);
  m->computation.parameters = ARENA_NEW(&m->scratch, trm_index, ROW_MAX_VALUES);
  out->operands = ARENA_NEW(m->arena, uint32_t, ROW_MAX_VALUES);
  out->results = ARENA_NEW(m->arena, uint32_t, ROW_MAX_VALUES);
  CHECK_MEMORY(m->computation.instructions, "rows");
  CHECK_MEMORY(m->computation.parameters, "rows");
  CHECK_MEMORY(out->operands, "rows");
  CHECK_MEMORY(out->results, "rows");
  return TRM_OK;
}

/* Whether the slot is that of running results, which come after the others. */
static bool is_running(const step *s, const strip_slot *slot) {
  return slot->kind == SLOT_RESULT && slot->source >= s->num_results - s->num_running;
}

/* The operations of the pass, or the numbers of a row that come before it. */
static trm_status make_step(maker *m, uint32_t pass, bool is_numbers, step *out,
                            bool *out_supported, trm_error *error) {
  trm_opcode running[ROW_MAX_VALUES];
  const row_values *values = &m->program->values;
  TRY(begin_step(m, out, is_numbers ? 1 : values->n, error));
  for (uint32_t v = 0; v < values->count; ++v) {
    const row_value *value = &values->items[v];
    if (!is_step_of(value, pass, is_numbers)) continue;
    trm_instruction o = *value->instruction;
    uint32_t operands[3];
    for (uint32_t k = 0; k < o.num_operands; ++k) {
      TRY(bring_value(m, value->operands[k], error));
      operands[k] = m->inside[value->operands[k]];
    }
    TRY(shape_of(m, value->dtype, false, &o.shape, error));
    TRY(add_instruction(m, o, operands, &m->inside[v], error));
  }
  TRY(add_results(m, pass, is_numbers, running, error));
  if (out->num_results == 0) return TRM_OK;
  bool streams[ROW_MAX_VALUES];
  uint32_t ahead[ROW_MAX_VALUES];
  for (uint32_t i = 0; i < out->num_results; ++i) {
    const uint32_t r = m->program->result_of[out->results[i]];
    streams[i] = !is_numbers && r != ROW_NO_VALUE && m->program->is_streamed[r] &&
                 !is_read_after(m->program, out->results[i], pass);
  }
  for (uint32_t i = 0; i < m->computation.num_parameters; ++i)
    ahead[i] = is_numbers ? 0 : bytes_ahead(m, out->operands[i], pass);
  const strip_request request = {.computation = &m->computation,
                                 .running = running,
                                 .streams = streams,
                                 .ahead = ahead,
                                 .half_overflow = m->request->module->half_overflow,
                                 .casts_wrap = m->request->module->casts_wrap};
  trm_strip_code *code = NULL;
  TRY(trm_strip_compile_any(&request, m->arena, &code, out_supported, error));
  if (!*out_supported) return TRM_OK;
  out->code = code;
  *out_supported = out->num_running <= MAX_RUNNING;
  out->first_slot = m->program->num_slots;
  const strip_stage *stage = &code->stages[0];
  m->program->num_slots += stage->num_slots;
  out->advancing = ARENA_NEW(m->arena, uint32_t, stage->num_slots);
  CHECK_MEMORY(out->advancing, "rows");
  for (uint32_t i = 0; i < stage->num_slots; ++i) {
    const strip_slot *slot = &stage->slots[i];
    if (slot->moves && !is_running(out, slot)) out->advancing[out->num_advancing++] = i;
  }
  return TRM_OK;
}

static trm_status make_steps(maker *m, bool *out_supported, trm_error *error) {
  trm_row_program *program = m->program;
  for (uint32_t pass = 0; pass <= program->values.num_passes; ++pass) {
    TRY(make_step(m, pass, true, &program->steps[program->num_steps++], out_supported, error));
    if (!*out_supported || pass == program->values.num_passes) break;
    TRY(make_step(m, pass, false, &program->steps[program->num_steps++], out_supported, error));
    if (!*out_supported) break;
  }
  return TRM_OK;
}

/* The rows of a group: so many that the arrays that the steps share stay in the cache. */
static int64_t choose_group(const row_values *values) {
  size_t row_bytes = 0;
  for (uint32_t v = 0; v < values->count; ++v) {
    const row_value *value = &values->items[v];
    if (value->kind == ROW_OPERAND && value->extent == EXTENT_ALL)
      row_bytes += (size_t)values->n * trm_dtype_size(value->dtype);
  }
  const int64_t group = (int64_t)(GROUP_BYTES / (row_bytes > 0 ? row_bytes : GROUP_BYTES));
  return group < 1 ? 1 : group > MAX_GROUP ? MAX_GROUP : group;
}

trm_status trm_row_program_create(const trm_kernel_request *request, const trm_computation *body,
                                  int64_t block, const bool *is_whole,
                                  trm_row_program **out_program, bool *out_supported,
                                  trm_error *error) {
  *out_supported = trm_strip_generates();
  if (!*out_supported) return TRM_OK;
  trm_row_program *program = ARENA_NEW(request->arena, trm_row_program, 1);
  CHECK_MEMORY(program, "rows");
  program->ops = trm_vector_ops_get();
  TRY(trm_row_values_read(request, body, block, is_whole, &program->values, out_supported, error));
  if (!*out_supported) return TRM_OK;
  for (uint32_t v = 0; v < ROW_MAX_VALUES; ++v) program->result_of[v] = ROW_NO_VALUE;
  for (uint32_t r = 0; r < program->values.num_results; ++r) {
    const row_value *value = &program->values.items[program->values.results[r]];
    const trm_shape *shape = trm_shape_leaf(&request->instruction->shape, (int32_t)r);
    program->result_of[program->values.results[r]] = r;
    program->is_streamed[r] =
        value->extent == EXTENT_ALL && trm_shape_bytes(shape) >= TRM_STREAM_LEAST_BYTES;
  }
  program->group = choose_group(&program->values);
  maker m = {.request = request, .program = program, .arena = request->arena};
  const trm_status status = make_steps(&m, out_supported, error);
  trm_arena_free(&m.scratch);
  if (status != TRM_OK || !*out_supported) {
    trm_row_program_destroy(program);
    return status;
  }
  program->slots_offset = reserve(program, program->num_slots * sizeof(void *));
  program->moving_offset = reserve(program, program->num_slots * sizeof(moving));
  *out_program = program;
  return TRM_OK;
}

void trm_row_program_destroy(trm_row_program *program) {
  for (uint32_t s = 0; s < program->num_steps; ++s)
    if (program->steps[s].code != NULL) trm_strip_destroy(program->steps[s].code);
}

size_t trm_row_program_scratch_bytes(const trm_row_program *program) {
  return program->scratch_bytes;
}

bool trm_row_program_in_place(const trm_row_program *program, uint32_t result, uint32_t operand) {
  const row_values *values = &program->values;
  const row_value *written = &values->items[values->results[result]];
  for (uint32_t v = 0; v < values->count; ++v) {
    const row_value *value = &values->items[v];
    if (value->kind != ROW_OPERAND || value->number != operand) continue;
    if (value->extent != EXTENT_ALL || written->extent != EXTENT_ALL ||
        is_read_after(program, v, written->pass))
      return false;
    for (uint32_t u = 0; u < values->count; ++u) /* a reduction reads in the pass before its own */
      if (values->items[u].kind == ROW_REDUCTION && values->items[u].operands[0] == v &&
          values->items[u].pass > written->pass + 1)
        return false;
  }
  return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct worker {
  const trm_row_program *program;
  const trm_kernel_call *call;
  char *scratch;
  void **slots;
  moving *moving;
  uint32_t num_moving, first_moving[MAX_STEPS + 1]; /* by step */
  int64_t first_row;                                /* of the group */
} worker;

/* Where the rows of the value are. */
static rows_place locate(const worker *w, uint32_t v) {
  const row_values *values = &w->program->values;
  const row_value *value = &values->items[v];
  const size_t size = trm_dtype_size(value->dtype);
  union {
    const void *in;
    char *out;
  } address; /* operands are only read */
  rows_place place = {.row_bytes = value->extent == EXTENT_ALL    ? (size_t)values->n * size
                                   : value->extent == EXTENT_ROWS ? size
                                                                  : 0};
  if (value->kind == ROW_OPERAND) {
    address.in = w->call->operands[value->number];
    place.start = address.out;
  } else if (is_in_result(w->program, v)) {
    place.start = w->call->results[w->program->result_of[v]];
  } else {
    place = (rows_place){w->scratch + w->program->place[v], scratch_row_bytes(w->program, v), true};
  }
  return place;
}

static rows_place place_of_slot(const worker *w, const step *s, uint32_t index) {
  const strip_stage *stage = &s->code->stages[0];
  const strip_slot *slot = &stage->slots[index];
  union {
    const void *in;
    char *out;
  } address;
  switch (slot->kind) {
    case SLOT_OPERAND: return locate(w, s->operands[slot->source]);
    case SLOT_RESULT:
      if (!is_running(s, slot)) return locate(w, s->results[slot->source]);
      return (rows_place){.start = w->scratch + w->program->lanes[s->results[slot->source]]};
    case SLOT_CONSTANT: address.in = slot->data; return (rows_place){.start = address.out};
    default: break;
  }
  for (uint32_t i = 0; i < stage->num_fills; ++i) { /* a number, which is read where it is */
    const strip_access *access = stage->fills[i].access;
    if (stage->fills[i].out != index) continue;
    rows_place place = place_of_slot(w, s, access->source);
    place.start += access->base * ((int64_t)1 << slot->log2_size);
    return place;
  }
  return (rows_place){.start = NULL}; /* nothing reads it */
}

static void bind_step(worker *w, const step *s) {
  for (uint32_t i = 0; i < s->code->stages[0].num_slots; ++i) {
    void **where = &w->slots[s->first_slot + i];
    const rows_place place = place_of_slot(w, s, i);
    *where = place.start;
    if (place.row_bytes > 0) w->moving[w->num_moving++] = (moving){where, place};
  }
}

static size_t row_offset(const worker *w, const rows_place *place, int64_t row) {
  return (size_t)(place->in_group ? row - w->first_row : row) * place->row_bytes;
}

/* Adds the lanes to the total in the order of sum_f32 (vector.c). */
static double add_lanes(double total, const float *lanes) {
  float sums[16];
  for (int l = 0; l < 16; ++l)
    sums[l] = (lanes[l] + lanes[16 + l]) + (lanes[32 + l] + lanes[48 + l]);
  for (int l = 0; l < 16; ++l) total += (double)sums[l];
  return total;
}

static const row_value *running_value(const worker *w, const step *s, uint32_t i, uint32_t *out_v) {
  *out_v = s->results[s->num_results - s->num_running + i];
  return &w->program->values.items[*out_v];
}

/* Brings the running results of a piece of the row to the totals. */
static void add_piece(const worker *w, const step *s, double *totals) {
  for (uint32_t i = 0; i < s->num_running; ++i) {
    uint32_t v;
    const trm_opcode reduction = running_value(w, s, i, &v)->reduction;
    const float *lanes = (const float *)(const void *)(w->scratch + w->program->lanes[v]);
    if (reduction == TRM_OP_ADD) {
      totals[i] = add_lanes(totals[i], lanes);
      continue;
    }
    float (*const extreme)(const float *, size_t) =
        reduction == TRM_OP_MAXIMUM ? w->program->ops->max_f32 : w->program->ops->min_f32;
    const float both[2] = {(float)totals[i], extreme(lanes, EXTREME_LANES)};
    totals[i] = (double)extreme(both, 2);
  }
}

static void begin_totals(const worker *w, const step *s, double *totals) {
  for (uint32_t i = 0; i < s->num_running; ++i) {
    uint32_t v;
    const row_value *value = running_value(w, s, i, &v);
    totals[i] = value->reduction == TRM_OP_ADD ? 0.0 : (double)value->initial;
  }
}

static void end_totals(const worker *w, const step *s, const double *totals, int64_t row) {
  for (uint32_t i = 0; i < s->num_running; ++i) {
    uint32_t v;
    const row_value *value = running_value(w, s, i, &v);
    const rows_place place = locate(w, v);
    const float result = value->reduction == TRM_OP_ADD
                             ? (float)((double)value->initial + totals[i])
                             : (float)totals[i];
    memcpy(place.start + row_offset(w, &place, row), &result, sizeof result);
  }
}

static void run_step(const worker *w, const step *s, int64_t row) {
  const strip_stage *stage = &s->code->stages[0];
  const trm_generated_fn function = stage->operations[0].generated->function;
  void **const slots = w->slots + s->first_slot;
  double totals[MAX_RUNNING];
  begin_totals(w, s, totals);
  for (int64_t done = 0;;) {
    const int64_t n = s->count - done < s->piece ? s->count - done : s->piece;
    function(slots, (size_t)n);
    add_piece(w, s, totals);
    done += n;
    if (done >= s->count) break;
    for (uint32_t i = 0; i < s->num_advancing; ++i) {
      const uint32_t slot = s->advancing[i];
      slots[slot] = (char *)slots[slot] + ((size_t)n << stage->slots[slot].log2_size);
    }
  }
  for (uint32_t i = 0; i < s->num_advancing && s->piece < s->count; ++i) {
    const uint32_t slot = s->advancing[i];
    const size_t passed = (size_t)((s->count - 1) / s->piece * s->piece);
    slots[slot] = (char *)slots[slot] - (passed << stage->slots[slot].log2_size);
  }
  end_totals(w, s, totals, row);
}

/* Runs a step for the rows of the group. */
static void run_group(const worker *w, uint32_t s, int64_t rows) {
  for (int64_t row = w->first_row; row < w->first_row + rows; ++row) {
    for (uint32_t i = w->first_moving[s]; i < w->first_moving[s + 1]; ++i) {
      const moving *moves = &w->moving[i];
      *moves->where = moves->place.start + row_offset(w, &moves->place, row);
    }
    run_step(w, &w->program->steps[s], row);
  }
}

void trm_row_program_run(const trm_row_program *program, const trm_kernel_call *call, int64_t begin,
                         int64_t end, void *scratch) {
  worker w = {.program = program, .call = call, .scratch = scratch};
  w.slots = (void **)(void *)(w.scratch + program->slots_offset);
  w.moving = (moving *)(void *)(w.scratch + program->moving_offset);
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    w.first_moving[s] = w.num_moving;
    if (program->steps[s].code != NULL) bind_step(&w, &program->steps[s]);
  }
  w.first_moving[program->num_steps] = w.num_moving;
  for (w.first_row = begin; w.first_row < end; w.first_row += program->group) {
    const int64_t rest = end - w.first_row;
    for (uint32_t s = 0; s < program->num_steps; ++s)
      if (program->steps[s].code != NULL)
        run_group(&w, s, rest < program->group ? rest : program->group);
  }
  trm_stream_end();
}
