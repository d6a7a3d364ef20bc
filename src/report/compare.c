/* Owns: comparing two profiles: totals, then each op whose cycles, temporary bytes or plan
 * differ. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "report/read.h"

typedef struct pair {
  const trm_profile_op *a, *b; /* NULL: only the other profile has the op */
} pair;

static int by_name(const void *a, const void *b) {
  return strcmp((*(const trm_profile_op *const *)a)->name,
                (*(const trm_profile_op *const *)b)->name);
}

static int64_t cycles_of(const trm_profile_op *op) { return op != NULL ? op->cycles : 0; }
static int64_t bytes_of(const trm_profile_op *op) { return op != NULL ? op->temporary_bytes : 0; }
static const char *plan_of(const trm_profile_op *op) {
  return op != NULL && op->plan != NULL ? op->plan : "";
}
static const char *name_of(const pair *p) { return p->a != NULL ? p->a->name : p->b->name; }

static bool differs(const pair *p) {
  return p->a == NULL || p->b == NULL || p->a->cycles != p->b->cycles ||
         p->a->temporary_bytes != p->b->temporary_bytes ||
         strcmp(plan_of(p->a), plan_of(p->b)) != 0;
}

/* Largest change of cycles first. */
static int by_change(const void *left, const void *right) {
  const pair *l = left, *r = right;
  const int64_t x = llabs(cycles_of(l->b) - cycles_of(l->a));
  const int64_t y = llabs(cycles_of(r->b) - cycles_of(r->a));
  if (x != y) return x < y ? 1 : -1;
  return strcmp(name_of(l), name_of(r));
}

static const trm_profile_op **sorted(const trm_profile *p) {
  const trm_profile_op **ops = trm_allocate_zeroed(p->ops.count + 1, sizeof *ops);
  for (size_t o = 0; ops != NULL && o < p->ops.count; ++o) ops[o] = &p->ops.items[o];
  if (ops != NULL) qsort(ops, p->ops.count, sizeof *ops, by_name);
  return ops;
}

/* Pairs ops by name. Equal pairs are only counted. */
static trm_status match(const trm_profile *a, const trm_profile *b, pair **out_pairs,
                        size_t *out_count, size_t *out_equal, trm_error *error) {
  const trm_profile_op **left = sorted(a), **right = sorted(b);
  pair *pairs = trm_allocate_zeroed(a->ops.count + b->ops.count + 1, sizeof *pairs);
  size_t i = 0, j = 0, count = 0, equal = 0;
  const bool memory = left != NULL && right != NULL && pairs != NULL;
  while (memory && (i < a->ops.count || j < b->ops.count)) {
    int order = i >= a->ops.count ? 1 : j >= b->ops.count ? -1 : 0;
    if (order == 0) order = strcmp(left[i]->name, right[j]->name);
    const pair one = {order <= 0 ? left[i] : NULL, order >= 0 ? right[j] : NULL};
    i += order <= 0;
    j += order >= 0;
    if (differs(&one)) pairs[count++] = one;
    else ++equal;
  }
  trm_free(left);
  trm_free(right);
  if (!memory) {
    trm_free(pairs);
    FAIL_NO_MEMORY("a comparison");
  }
  qsort(pairs, count, sizeof *pairs, by_change);
  *out_pairs = pairs;
  *out_count = count;
  *out_equal = equal;
  return TRM_OK;
}

static void append_row(trm_text *text, const char *name, int64_t a, int64_t b) {
  trm_text_format(text, "  %-26s %16s %16s", name, GROUPED(a), GROUPED(b));
  if (a != 0) trm_text_format(text, " %+7.1f%%", 100.0 * ((double)b / (double)a - 1));
  trm_text_format(text, "\n");
}

static void append_plan(trm_text *text, char side, const trm_profile_op *op) {
  if (*plan_of(op) != '\0') trm_text_format(text, "%57s %c: %s\n", "", side, plan_of(op));
}

static void append_text(const trm_profile *a, const trm_profile *b, const pair *pairs, size_t count,
                        size_t equal, trm_text *text) {
  trm_text_format(text, "A: %s, %s, %s\nB: %s, %s, %s\n\n%-28s %16s %16s %8s\n", a->path, a->target,
                  trm_profile_verdict(a), b->path, b->target, trm_profile_verdict(b), "", "A", "B",
                  "change");
  append_row(text, "cycles of a run", a->cycles, b->cycles);
  trm_profile_part left[TRM_PROFILE_PARTS], right[TRM_PROFILE_PARTS];
  trm_profile_parts(a, left);
  trm_profile_parts(b, right);
  for (int i = 0; i < TRM_PROFILE_PARTS; ++i) {
    char name[64];
    snprintf(name, sizeof name, "  %s", left[i].name);
    if (left[i].cycles != 0 || right[i].cycles != 0)
      append_row(text, name, left[i].cycles, right[i].cycles);
  }
  if (a->overlapped_cycles != 0 || b->overlapped_cycles != 0)
    append_row(text, "  less what overlaps", -a->overlapped_cycles, -b->overlapped_cycles);
  append_row(text, "bytes of all tiles", a->memory_bytes_with_gaps, b->memory_bytes_with_gaps);
  append_row(text, "bytes of the fullest tile", a->worst_tile_bytes, b->worst_tile_bytes);
  trm_text_format(text, "\n%14s %14s %12s %12s  op\n", "cycles A", "cycles B", "temporary A",
                  "temporary B");
  for (size_t i = 0; i < count; ++i) {
    const pair *p = &pairs[i];
    trm_text_format(text, "%14s %14s %12s %12s  %s%s\n", GROUPED(cycles_of(p->a)),
                    GROUPED(cycles_of(p->b)), GROUPED(bytes_of(p->a)), GROUPED(bytes_of(p->b)),
                    name_of(p),
                    p->a == NULL   ? " (B only)"
                    : p->b == NULL ? " (A only)"
                                   : "");
    if (strcmp(plan_of(p->a), plan_of(p->b)) == 0) continue;
    append_plan(text, 'A', p->a);
    append_plan(text, 'B', p->b);
  }
  trm_text_format(text, "%zu op%s alike in both\n\nA: ", equal, equal == 1 ? " is" : "s are");
  trm_profile_summary(a, text);
  trm_text_format(text, "\nB: ");
  trm_profile_summary(b, text);
  trm_text_format(text, "\n");
}

static json_t *side_of(const trm_profile *p) {
  return json_pack("{sssssIsIsIsbsb}", "path", p->path, "target", p->target, "cycles",
                   (json_int_t)p->cycles, "memory_bytes", (json_int_t)p->memory_bytes_with_gaps,
                   "worst_tile_bytes", (json_int_t)p->worst_tile_bytes, "fits", (int)p->fits,
                   "is_close", (int)p->is_close);
}

static json_t *op_of(const trm_profile_op *op) {
  if (op == NULL) return json_null();
  return json_pack("{sIsIss?}", "cycles", (json_int_t)op->cycles, "temporary_bytes",
                   (json_int_t)op->temporary_bytes, "plan", op->plan);
}

static void append_json(const trm_profile *a, const trm_profile *b, const pair *pairs, size_t count,
                        size_t equal, trm_text *text) {
  json_t *ops = json_array();
  for (size_t i = 0; i < count; ++i) {
    json_array_append_new(ops, json_pack("{sssoso}", "op", name_of(&pairs[i]), "a",
                                         op_of(pairs[i].a), "b", op_of(pairs[i].b)));
  }
  json_t *all = json_pack("{sososIso}", "a", side_of(a), "b", side_of(b), "equal_ops",
                          (json_int_t)equal, "ops", ops);
  char *dumped = all != NULL ? json_dumps(all, JSON_INDENT(1)) : NULL;
  json_decref(all);
  if (dumped != NULL) trm_text_format(text, "%s\n", dumped);
  free(dumped);
}

trm_status trm_profile_compare(const trm_profile *a, const trm_profile *b, bool json,
                               char **out_text, trm_error *error) {
  pair *pairs;
  size_t count, equal;
  TRY(match(a, b, &pairs, &count, &equal, error));
  trm_text text = {0};
  (json ? append_json : append_text)(a, b, pairs, count, equal, &text);
  trm_free(pairs);
  if (text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a comparison");
  }
  if (text.length == 0) {
    FAIL(INVALID_ARGUMENT, "%s or %s holds text that is not UTF-8", a->path, b->path);
  }
  *out_text = text.data;
  return TRM_OK;
}
