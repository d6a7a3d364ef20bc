/* The model against published measurements, point by point.
 *
 *   bench_fidelity                        prints the tables
 *   bench_fidelity --update FILE.md       puts them between the two marks of a document
 *
 * Fails (exit 1) when the dense matmuls are off by 5 % in the mean or one of them by 20 %, the IPU
 * Model's program by 15 %, or a blur by 25 %. The published rates of halves are the better ones of
 * float and half partial sums, and so are the model's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fidelity/published.h"
#include "ipu/plan/internal.h"
#include "tremula/program.h"

static const double mean_allowed = 0.05, point_allowed = 0.20, model_allowed = 0.15,
                    blur_allowed = 0.25;
static const char begin_mark[] = "<!-- tables: begin -->\n", end_mark[] = "<!-- tables: end -->";

static void check(trm_status status, const trm_error *error) {
  if (status == TRM_OK) return;
  fprintf(stderr, "fidelity: %s\n", error->message);
  exit(1);
}

static trm_target *load(const char *name) {
  trm_error error;
  trm_target *target = NULL;
  check(trm_target_load(name, &target, &error), &error);
  return target;
}

static trm_linear_plan plan_of(const trm_target *target, const published_matmul *p,
                               bool half_partials) {
  trm_error error;
  const trm_conv_params params = trm_conv_params_matmul(p->type, p->type, 1, p->m, p->m, p->n);
  trm_plan_options options = trm_plan_options_default();
  if (half_partials) options.partials_type = TRM_F16;
  trm_linear_plan plan;
  check(trm_linear_plan_make(target, &params, &options, NULL, &plan, &error), &error);
  return plan;
}

typedef struct errors {
  double sum, bias, worst;
  int count;
} errors;

static double add_error(errors *e, double predicted, double published) {
  const double error = predicted / published - 1;
  e->sum += fabs(error);
  e->bias += error;
  if (fabs(error) > e->worst) e->worst = fabs(error);
  ++e->count;
  return 100 * error;
}

static void print_errors(trm_text *out, const char *what, const errors *e) {
  trm_text_format(out,
                  "- %s: mean absolute error %.1f %%, mean error %+.1f %%, worst %.1f %%, %d "
                  "points\n",
                  what, 100 * e->sum / e->count, 100 * e->bias / e->count, 100 * e->worst,
                  e->count);
}

/* Convolve is the vertices' part; the exchange column has all exchanges, syncs and set-ups. */
static bool print_matmuls(trm_text *out) {
  trm_target *bow = load("bow");
  errors all = {0}, half = {0}, single = {0}, narrow = {0}, better = {0};
  trm_text_format(out,
                  "### Dense matmuls on a Bow (B)\n\n"
                  "| type | m = k | n | published TFLOP/s | cycles | model | error | vertices | "
                  "reduce | exchange, sync | rest | splits: rows, out (serial), in (serial) | with "
                  "half partials |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < NUM_PUBLISHED_MATMULS; ++i) {
    const published_matmul *p = &published_matmuls[i];
    const double cycles = published_cycles(p);
    const trm_linear_plan plan = plan_of(bow, p, false);
    const bool is_half = p->type == TRM_F16;
    const double error = add_error(is_half ? &half : &single, (double)plan.cycles, cycles);
    uint64_t vertices = 0, reduce = 0, exchange = 0;
    for (uint32_t k = 0; k < plan.num_phases; ++k) {
      const trm_plan_phase *phase = &plan.phases[k];
      exchange += phase->times * (phase->exchange_cycles + phase->sync_cycles);
      if (phase->step == TRM_STEP_PARTIALS) vertices += phase->times * phase->compute_cycles;
      if (phase->step == TRM_STEP_REDUCE) reduce += phase->times * phase->compute_cycles;
    }
    trm_text_format(
        out,
        "| %s | %d | %d | %.1f | %.0f | %llu | %+.1f %% | %llu | %llu | %llu | "
        "%llu | %u, %u (%u), %u (%u)%s |",
        trm_dtype_name(p->type), p->m, p->n, p->tflops, cycles, (unsigned long long)plan.cycles,
        error, (unsigned long long)vertices, (unsigned long long)reduce,
        (unsigned long long)exchange,
        (unsigned long long)(plan.cycles - vertices - reduce - exchange), plan.partition.batch,
        plan.partition.out_channels, plan.partition.out_channels_serial, plan.partition.in_channels,
        plan.partition.in_channels_serial, plan.transform.swap_operands ? ", swapped" : "");
    if (is_half) {
      const trm_linear_plan other = plan_of(bow, p, true);
      trm_text_format(out, " %llu, %+.1f %% |\n", (unsigned long long)other.cycles,
                      add_error(&narrow, (double)other.cycles, cycles));
      const double least = fmin((double)plan.cycles, (double)other.cycles);
      add_error(&better, least, cycles);
      add_error(&all, least, cycles);
    } else {
      add_error(&all, (double)plan.cycles, cycles);
      trm_text_format(out, " |\n");
    }
  }
  trm_text_format(out, "\n");
  print_errors(out, "all, f16 with the better partials", &all);
  print_errors(out, "f16, default options (float partials)", &half);
  print_errors(out, "f32", &single);
  print_errors(out, "f16 with half partials", &narrow);
  print_errors(out, "f16 with the better partials", &better);
  trm_target_release(bow);
  return all.sum / all.count < mean_allowed && all.worst <= point_allowed;
}

static void print_row(trm_text *out, const char *what, double published, double model) {
  trm_text_format(out, "| %s | %.0f | %.0f | %+.1f %% |\n", what, published, model,
                  100 * (model / published - 1));
}

static bool print_model(trm_text *out) {
  trm_target *mk2 = load("mk2");
  trm_error error;
  uint64_t convolve = 0, reduce = 0, cycles = 0;
  uint32_t tiles = 0;
  static const int shapes[2][3] = {{800, 500, 400}, {800, 400, 200}};
  for (size_t i = 0; i < 2; ++i) {
    const trm_conv_params params =
        trm_conv_params_matmul(TRM_F32, TRM_F32, 1, shapes[i][0], shapes[i][1], shapes[i][2]);
    const trm_plan_options options = trm_plan_options_default();
    trm_linear_plan plan;
    check(trm_linear_plan_make(mk2, &params, &options, NULL, &plan, &error), &error);
    cycles += plan.cycles;
    if (plan.tiles_used > tiles) tiles = plan.tiles_used;
    for (uint32_t k = 0; k < plan.num_phases; ++k) {
      const trm_plan_phase *phase = &plan.phases[k];
      if (phase->step == TRM_STEP_PARTIALS) convolve += phase->times * phase->compute_cycles;
      if (phase->step == TRM_STEP_REDUCE) reduce += phase->times * phase->compute_cycles;
    }
  }
  trm_module *module = NULL;
  check(trm_module_read(published_program, sizeof published_program - 1, "row A", &module, &error),
        &error);
  trm_program_options options = {.size = sizeof options};
  trm_program_options_init(&options);
  trm_program *program = NULL;
  check(trm_program_create(module, false, mk2, &options, &program, &error), &error);
  trm_program_totals t = {.size = sizeof t};
  trm_program_get_totals(program, &t);
  const double on_chip = (double)(t.cycles - t.host_cycles);
  trm_text_format(out, "\n### Graphcore's IPU Model of an MK2 (A)\n\n"
                       "| | published | model | error |\n|---|---|---|---|\n");
  print_row(out, "cycles of the program, host transfers apart", published_model.cycles, on_chip);
  print_row(out, "of it the two plans", published_model.cycles, (double)cycles);
  print_row(out, "Convolve", published_model.convolve, (double)convolve);
  print_row(out, "Reduce", published_model.reduce, (double)reduce);
  print_row(out, "tiles used", published_model.tiles, tiles);
  print_row(out, "memory, bytes, without gaps and code", published_model.memory_bytes,
            (double)t.memory_bytes);
  print_row(out, "vertices", published_model.vertices, (double)t.num_vertices);
  print_row(out, "edges", published_model.edges, (double)t.num_edges);
  trm_program_free(program);
  trm_module_free(module);
  trm_target_release(mk2);
  return fabs(on_chip / published_model.cycles - 1) <= model_allowed &&
         fabs((double)t.memory_bytes / published_model.memory_bytes - 1) <= model_allowed &&
         tiles == (uint32_t)published_model.tiles;
}

static void print_halo(trm_text *out) {
  trm_target *mk1 = load("mk1");
  const double each =
      (double)plan_exchange_cycles(mk1, published_halo.bytes, 0, published_halo.messages) +
      mk1->exchange_phase_cycles;
  trm_text_format(out, "\n### A stencil's halo on a GC2 (C)\n\n"
                       "| | published | model | error |\n|---|---|---|---|\n");
  print_row(out, "exchange, ten iterations", published_halo.exchange,
            each * published_halo.iterations);
  print_row(out, "sync, ten iterations of two", published_halo.sync,
            2.0 * mk1->max_sync_delay * published_halo.iterations);
  trm_target_release(mk1);
}

/* False: a blur that is not short of memory is off by a quarter. */
static bool print_blurs(trm_text *out) {
  trm_target *mk1 = load("mk1");
  bool good = true;
  trm_text_format(out,
                  "\n### Blurs on a GC2\n\n| rows | columns | availableMemoryProportion | "
                  "published cycles | model | error | plan |\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < NUM_PUBLISHED_BLURS; ++i) {
    const published_blur *p = &published_blurs[i];
    const trm_conv_params params = published_blur_params(p);
    trm_plan_options options = trm_plan_options_default();
    options.available_memory_proportion = p->proportion;
    trm_error error;
    trm_linear_plan plan;
    check(trm_linear_plan_make(mk1, &params, &options, NULL, &plan, &error), &error);
    const double difference = (double)plan.cycles / p->cycles - 1;
    good = good && (p->is_short || fabs(difference) <= blur_allowed);
    trm_text_format(out, "| %d | %d | %.1f | %.0f | %llu | %+.1f %% | %s |\n", p->rows, p->columns,
                    p->proportion, p->cycles, (unsigned long long)plan.cycles, 100 * difference,
                    trm_plan_method_name(plan.method));
  }
  trm_target_release(mk1);
  return good;
}

/* Rates of square matmuls on other machines; half with half partials too. Checks: nothing fails. */
static void print_squares(trm_text *out) {
  trm_text_format(out,
                  "\n### Square matmuls on other machines (recollected from papers)\n\n"
                  "| machine | type | m = k = n | published TFLOP/s | model | error | with half "
                  "partials |\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < NUM_PUBLISHED_SQUARES; ++i) {
    const published_square *p = &published_squares[i];
    trm_target *target = load(p->target);
    const published_matmul shape = {p->type, p->size, p->size, p->tflops};
    double rates[2];
    for (int half = 0; half < 2; ++half) {
      const trm_linear_plan plan = plan_of(target, &shape, half == 1);
      rates[half] =
          2.0 * p->size * p->size * p->size / (double)plan.cycles * target->clock_frequency / 1e12;
    }
    trm_text_format(out, "| %s | %s | %d | %.1f | %.1f | %+.1f %% |", p->target,
                    trm_dtype_name(p->type), p->size, p->tflops, rates[0],
                    100 * (rates[0] / p->tflops - 1));
    if (p->type == TRM_F16) trm_text_format(out, " %.1f |\n", rates[1]);
    else trm_text_format(out, " |\n");
    trm_target_release(target);
  }
}

/* The program of a large product. (B)'s casts the operands and the result, from and to variables
 * that the host writes and reads. These are always live, also the result's: here the program
 * updates it. */
static void write_large(const published_large *p, trm_text *out) {
  const char *type = trm_dtype_name(p->type);
  const bool casts = strcmp(p->target, "bow") == 0; /* the program of (B) */
  const char *host = casts ? "f32" : type;
  trm_text_format(out,
                  "HloModule large, %sfrontend_attributes={tremula_side_table="
                  "\"{\\\"inputs\\\":[\\\"a\\\",\\\"b\\\"%s],\\\"arguments\\\":0}\"}\n"
                  "ENTRY e {\n  x = %s[%d,%d] parameter(0)\n  y = %s[%d,%d] parameter(1)\n",
                  casts ? "input_output_alias={ {}: (2, {}, may-alias) }, " : "",
                  casts ? ",\\\"c\\\"" : "", host, p->m, p->m, host, p->m, p->n);
  if (casts) trm_text_format(out, "  result = %s[%d,%d] parameter(2)\n", host, p->m, p->n);
  trm_text_format(out,
                  "  a = %s[%d,%d] convert(x)\n  b = %s[%d,%d] convert(y)\n"
                  "  c = %s[%d,%d] dot(a, b), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0}\n  ROOT z = %s[%d,%d] convert(c)\n}\n",
                  type, p->m, p->m, type, p->m, p->n, type, p->m, p->n, host, p->m, p->n);
}

/* The fullest tile of large products, with code, in the words of `tremula plan`. */
static void print_larges(trm_text *out) {
  trm_text_format(out, "\n### Large matmuls\n\n"
                       "| machine | type | m = k | n | known | model, with code: fullest tile |\n"
                       "|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < NUM_PUBLISHED_LARGES; ++i) {
    const published_large *p = &published_larges[i];
    const char *type = trm_dtype_name(p->type);
    trm_error error;
    trm_text source = {0};
    write_large(p, &source);
    trm_target *target = load(p->target);
    trm_module *module = NULL;
    check(trm_module_read(source.data, source.length, "large", &module, &error), &error);
    trm_program_options options = {.size = sizeof options};
    trm_program_options_init(&options);
    options.compile_ipu_code = true;
    trm_program *program = NULL;
    check(trm_program_create(module, false, target, &options, &program, &error), &error);
    trm_program_totals totals = {.size = sizeof totals};
    trm_program_get_totals(program, &totals);
    trm_text_format(out, "| %s | %s | %d | %d | %s | %.1f %% |\n", p->target, type, p->m, p->n,
                    p->fits ? "fits" : "does not fit",
                    100.0 * (double)totals.worst_tile_bytes / target->bytes_per_tile);
    trm_program_free(program);
    trm_module_free(module);
    trm_target_release(target);
    trm_text_free(&source);
  }
}

/* Memory by category of a program on a machine, with code; the program's totals. */
static trm_program_totals print_categories(const char *target_name, trm_framework_steps steps,
                                           const char *text, size_t length,
                                           const published_category *known, size_t count,
                                           trm_text *out) {
  trm_error error;
  trm_target *target = load(target_name);
  trm_module *module = NULL;
  check(trm_module_read(text, length, "categories", &module, &error), &error);
  trm_program_options options = {.size = sizeof options};
  trm_program_options_init(&options);
  options.compile_ipu_code = true;
  options.framework_steps = steps;
  trm_program *program = NULL;
  check(trm_program_create(module, false, target, &options, &program, &error), &error);
  trm_text_format(out, "\n| | published | model | error |\n|---|---|---|---|\n");
  for (size_t c = 0; c < count; ++c) {
    print_row(out, trm_memory_category_name(known[c].category), known[c].bytes,
              (double)trm_program_category_bytes(program, known[c].category));
  }
  trm_program_totals totals = {.size = sizeof totals};
  trm_program_get_totals(program, &totals);
  trm_program_free(program);
  trm_module_free(module);
  trm_target_release(target);
  return totals;
}

/* The guide's first example, and a dense layer. */
static void print_memory(trm_text *out) {
  trm_text_format(out, "\n### Memory by category of two additions on a GC2, bytes\n");
  trm_program_totals totals = print_categories(
      "mk1", TRM_FRAMEWORK_STEPS_ON, published_small_program, sizeof published_small_program - 1,
      published_small, NUM_PUBLISHED_CATEGORIES, out);
  print_row(out, "all, gaps apart", published_small_total, (double)totals.memory_bytes);
  trm_text_format(out, "\n### Memory by category of a dense layer on an MK2, bytes\n");
  totals = print_categories("mk2", TRM_FRAMEWORK_STEPS_OFF, published_dense_program,
                            sizeof published_dense_program - 1, published_dense,
                            NUM_DENSE_CATEGORIES, out);
  print_row(out, "not always live", published_dense_temporary,
            (double)(totals.max_step_bytes - totals.always_live_bytes));
}

static void update(const char *path, const trm_text *tables) {
  trm_error error;
  char *data = NULL;
  size_t size = 0;
  check(trm_read_file(path, "documents", &data, &size, &error), &error);
  const char *begin = strstr(data, begin_mark);
  const char *end = begin == NULL ? NULL : strstr(begin, end_mark);
  if (end == NULL) {
    fprintf(stderr, "fidelity: %s lacks the marks %s and %s\n", path, begin_mark, end_mark);
    exit(1);
  }
  begin += sizeof begin_mark - 1;
  trm_text text = {0};
  trm_text_append(&text, data, (size_t)(begin - data));
  trm_text_append(&text, tables->data, tables->length);
  trm_text_append(&text, end, size - (size_t)(end - data));
  check(trm_write_file(path, text.data, text.length, &error), &error);
  trm_text_free(&text);
  trm_free(data);
}

int main(int argc, char **argv) {
  if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--update") == 0)) {
    fprintf(stderr, "usage: bench_fidelity [--update FILE.md]\n");
    return 2;
  }
  trm_text tables = {0};
  const bool matmuls = print_matmuls(&tables), model = print_model(&tables);
  print_halo(&tables);
  const bool blurs = print_blurs(&tables);
  print_squares(&tables);
  print_larges(&tables);
  print_memory(&tables);
  if (tables.failed) return 1;
  if (argc == 3) update(argv[2], &tables);
  fputs(tables.data, stdout);
  if (!matmuls) printf("the dense matmuls are off by more than is allowed\n");
  if (!model) printf("the IPU Model's program is off by more than is allowed\n");
  if (!blurs) printf("the blurs are off by more than is allowed\n");
  trm_text_free(&tables);
  return matmuls && model && blurs ? 0 : 1;
}
