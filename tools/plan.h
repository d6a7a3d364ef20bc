/* Declarations that the files of `tremula plan` share.
 *
 *   command_plan.c  the command line, the list of cases, the exit code
 *   plan_model.c    the executables, one for each batch size
 *   plan_case.c     estimating one case
 *   plan_compare.c  plans side by side: machines, and what if
 *   plan_search.c   what would make a case fit
 *   plan_text.c     the answer as text; plan_json.c: as JSON; plan_page.c: as a page */
#ifndef TREMULA_TOOLS_PLAN_H_
#define TREMULA_TOOLS_PLAN_H_

#include <jansson.h>

#include "tool.h"
#include "tremula/program.h"

enum { EXIT_DOES_NOT_FIT = 3, PLAN_MAX_LIST = 256 };

/* ---- What is asked -------------------------------------------------------------------------- */

typedef struct plan_request {
  const char *model;
  string_list targets; /* names or paths; loaded: machines */
  trm_target *machines[PLAN_MAX_LIST];
  long ipus[PLAN_MAX_LIST];
  size_t num_ipus; /* 0: the model's own number */
  long instances[PLAN_MAX_LIST];
  size_t num_instances; /* 0: one */
  long batches[PLAN_MAX_LIST];
  size_t num_batches; /* 0: the model's own batch size */
  bool batches_go_on; /* "...": batch sizes are doubled until one does not fit */
  const char *swept;  /* the key of --sweep, or NULL */
  double values[PLAN_MAX_LIST];
  size_t num_values;
  const char *training; /* "sgd", "momentum", "adam", or NULL */
  string_list what_if;  /* changes, batch=N among them */
  long what_if_batch;   /* that N; 0: none */
  bool json;
  const char *html;    /* the page to write, or NULL */
  trm_option *options; /* from --option */
  size_t num_options;
  lowering_options lowering;
} plan_request;

/* The i-th key that --sweep accepts; NULL after the last. */
const char *plan_swept_key(size_t i);
/* The option of the compiler whose whole effect the sweep of a key replaces; "": none. */
const char *plan_swept_option(const char *key);

/* ---- plan_model.c --------------------------------------------------------------------------- */

/* Makes an empty temporary folder; `folder` has room for PLAN_PATH_SIZE. */
enum { PLAN_PATH_SIZE = 4096 };
trm_status plan_make_folder(char *folder, trm_error *error);

typedef struct plan_model {
  trm_executable *executable;
  long batch;         /* the requested batch size; 0: none */
  bool is_fed;        /* items come from feeds: see trm_program_items */
  bool has_own_batch; /* the model states its batch size, so that Python could set no other */
  int64_t parameters, parameter_bytes; /* -1: the model does not say */
} plan_model;

/* Reads one model for each batch size, or one model for count 0; `models` has room for them. Only a
 * model whose shapes tell what another batch would be can have other sizes than its own. */
trm_status plan_models_read(const plan_request *request, const long *batches, size_t count,
                            plan_model *models, trm_error *error);
void plan_model_free(plan_model *model);
/* The input whose first dimension counts the items: the first that is neither a weight nor a
 * scalar, or the first weight that no output updates, under the name that the user gave it; rank 0:
 * there is none. `program` is the model's, and the name lives as long. *out_index (NULL is allowed)
 * is its number. */
trm_tensor_info plan_model_input(const plan_model *model, const trm_program *program,
                                 size_t *out_index);

/* ---- plan_case.c ---------------------------------------------------------------------------- */

typedef struct plan_case {
  const char *target; /* the name of the target */
  long ipus, batch;   /* the requested numbers; 0: the model's own */
  long instances;     /* each with so many IPUs; at least 1 */
  double value;       /* the value of --sweep */
  trm_program_options options;
  trm_program_totals totals;
  trm_program *program; /* the program of a case that is shown in full; or NULL */
  trm_program_layer *layers;
  size_t num_layers;
  int64_t always_live_worst_bytes; /* on the fullest tile */
  trm_tensor_info input;           /* see plan_model_input; `input_name` has its name */
  char input_name[160];
  int64_t items, parameters, parameter_bytes, inputs_bytes;
  int64_t categories[TRM_NUM_MEMORY_CATEGORIES];
  double seconds, items_per_second; /* 0: unknown */
  int64_t bytes_total;              /* memory of the IPUs */
  char *explanation;                /* text about a case that does not fit and is shown in full */
  trm_program_search *search;       /* what would make it fit; or NULL */
  struct plan_case *what_if;        /* the case with the changes of --what-if; or NULL */
  char problem[512];                /* why there is no estimate; "": there is one */
  json_t *json;                     /* of the answer as JSON or a page; or NULL */
} plan_case;

/* Estimates a case. `full` keeps the details for showing it in full. `problem` says why this case
 * is impossible; an error ends the command. `changed`: the model with what_if_batch, or `model`. */
trm_status plan_case_run(const plan_request *request, const plan_model *model,
                         const plan_model *changed, size_t target, long ipus, long instances,
                         double value, bool full, plan_case *out_case, trm_error *error);
/* What an IPU has in a run; the case is in full. */
typedef struct plan_ipu {
  int64_t worst_tile_bytes, bytes; /* of its fullest tile and of all, each at its peak */
  int64_t cycles;                  /* of its steps, those that all IPUs make together apart */
} plan_ipu;
plan_ipu plan_ipu_of(const plan_case *one, uint32_t ipu);
/* Releases what only the answer in full has. */
void plan_case_free_details(plan_case *one);
void plan_case_free(plan_case *one);

/* ---- plan_search.c -------------------------------------------------------------------------- */

/* Searches what would make a program fit. On a terminal, the standard error shows progress. Ctrl-C
 * ends this search and those that follow with what was found so far. */
trm_status plan_search(const trm_program *program, trm_program_search **out_search,
                       trm_error *error);

/* ---- plan_text.c, plan_json.c --------------------------------------------------------------- */

typedef struct plan_answer {
  const plan_request *request;
  plan_model *models;
  size_t num_models;
  plan_model changed; /* with the batch of --what-if; no executable: the models serve */
  plan_case *cases;
  size_t num_cases;
} plan_answer;

/* "1 234 567", in the buffer; "yes", "barely", "just not" or "no". */
const char *plan_grouped(int64_t number, char *buffer, size_t size);
#define PLAN_NUMBER(n) plan_grouped((n), (char[40]){0}, 40)
const char *plan_verdict(const plan_case *one);
/* The first case that has no problem, or NULL. */
const plan_case *plan_first_planned(const plan_answer *answer);

/* The machines of each case that is shown in full; what --what-if changes of one. */
void plan_print_targets(const plan_answer *answer);
void plan_print_what_if(const plan_answer *answer, const plan_case *one);
json_t *plan_targets_json(const plan_answer *answer);
json_t *plan_what_if_json(const plan_answer *answer, const plan_case *one);
/* A table with a column for each case, and the difference of two. */
void plan_print_side_by_side(const plan_case *const *cases, const char *const *heads, size_t count);

void plan_print_text(const plan_answer *answer);
/* What the answer as JSON says of a case. */
json_t *plan_case_json(const plan_answer *answer, const plan_case *one);
trm_status plan_print_json(const plan_answer *answer, FILE *out, trm_error *error);
trm_status plan_write_page(const plan_answer *answer, trm_error *error);

#endif /* TREMULA_TOOLS_PLAN_H_ */
