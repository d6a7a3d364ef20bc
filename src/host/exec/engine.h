/* The inner half of engines: an executable with memory for each of its replicas.
 *
 *   engine.c      creating and freeing, feeds, the public functions
 *   host_calls.c  host functions that programs call
 *   edges.c       float16 inputs and outputs of programs that store them as float32
 *   replica.c     one replica: its memory, and the addresses of all values in a run
 *   run.c         running the steps
 *   residence.c   what of it is on an accelerator
 *   accelerated.c what an accelerator computes
 *   times.c       the time of each step
 *   team.c        the threads of replicas
 *   remote.c      the replicas in other processes */
#ifndef TREMULA_HOST_EXEC_ENGINE_H_
#define TREMULA_HOST_EXEC_ENGINE_H_

#include <stdatomic.h>

#include "compile/executable.h"
#include "host/exec/feeds.h"
#include "host/exec/residence.h"
#include "host/exec/team.h"

/* An output of a replica other than the first, or one that the program gives as float32 and the
 * caller gets as float16. An output that updates an input (a variable) has two blocks: until the
 * host writes the variable, the replica reads its own value from one block and writes the new value
 * to the other. */
typedef struct trm_own_output {
  void *blocks[2];     /* NULL: the caller's memory gets the output */
  void *rounded;       /* the float16 of a float32 output, of replicas other than the first */
  uint64_t given[2];   /* by block: the version by which the host will name this value; 0: none */
  uint64_t numbers[2]; /* by block: the number of the contents */
  uint32_t written;    /* the block of the last run */
} trm_own_output;

typedef struct trm_replica {
  char *arena, *persistent;
  void **pointers;       /* by slot */
  const void **operands; /* of all steps, one after the other */
  void **results;
  uint64_t *versions;     /* by operand */
  trm_kernel_call *calls; /* by step: what it hands to its kernel */
  trm_exchange *exchange; /* NULL: there is one replica */
  trm_own_output *own;    /* by output; NULL: everything is the caller's */
  const void **inputs;    /* of this run; unused where everything is the caller's */
  uint64_t *input_versions;
  void **outputs;
  trm_residence *residence; /* NULL: the program has no regions of an accelerator */
} trm_replica;

/* A float16 input that the program takes as float32. */
typedef struct trm_float_input {
  float *block;     /* NULL: the input is no such one */
  uint64_t version; /* of the caller's contents that were converted; 0: unknown */
} trm_float_input;

typedef struct trm_step_time {
  uint64_t nanoseconds, calls;
} trm_step_time;

typedef struct trm_host_binding {
  trm_host_function function; /* NULL: none */
  void *user;
} trm_host_binding;

struct trm_engine {
  trm_executable *executable;
  uint32_t num_replicas; /* in this process */
  trm_replica *replicas;
  trm_team *team;                /* NULL: there is one replica */
  trm_remote *remote;            /* NULL: no replica is in another process */
  uint64_t program;              /* tells programs apart, where other processes run it too */
  trm_float_input *float_inputs; /* by input */
  trm_infeed **infeeds;          /* by feed; NULL: not bound */
  trm_outfeed **outfeeds;
  trm_host_binding *host_functions; /* by host call */
  uint64_t seed, runs;              /* runs since the seed was set */
  uint64_t contents;                /* the number of this run's results; never used twice */
  atomic_bool cancelled;
  bool keeps_resident;  /* on the accelerator (trm_engine_keep_resident) */
  bool *stays;          /* by output, those of the first replica in this run, then of the others */
  trm_step_time *times; /* by step, of the first replica; NULL: not measured */
};

/* replica.c. */
trm_status trm_replica_create(trm_engine *engine, uint32_t number, trm_error *error);
void trm_replica_free(const trm_engine *engine, trm_replica *replica);
/* Fills in the addresses of this run. */
trm_status trm_replica_locate(trm_engine *engine, uint32_t number, const void *const *inputs,
                              const uint64_t *versions, void *const *outputs, trm_error *error);
/* Called after a run, with output_versions as in trm_engine_run_replicated; NULL also if the run
 * failed. */
void trm_replica_keep_outputs(trm_engine *engine, uint32_t number, const uint64_t *output_versions);

/* edges.c. */
trm_status trm_engine_create_edges(trm_engine *engine, trm_error *error);
void trm_engine_free_edges(trm_engine *engine);
/* Gives the float32 of input i for a replica, whose contents on the host have that version. The
 * first replica comes first. */
trm_status trm_engine_widen_input(trm_engine *engine, uint32_t replica, size_t i,
                                  const void *halves, uint64_t version, const void **out_floats,
                                  trm_error *error);
/* After a run: the caller's float16 outputs. */
void trm_engine_narrow_outputs(const trm_engine *engine, void *const *outputs);

/* run.c. Runs all steps of one replica. */
trm_status trm_replica_run(trm_engine *engine, uint32_t number, trm_error *error);
/* trm_kernel_call.is_stopped. */
bool trm_engine_is_stopped(const void *engine);

/* host_calls.c. Calls the function for the host call of step i. */
trm_status trm_replica_call_host(const trm_engine *engine, uint32_t number, uint32_t i,
                                 trm_error *error);

/* accelerated.c. Why the CPU computes a step, where an accelerator is chosen; NULL: no reason. */
const char *trm_step_stays(const trm_schedule *schedule, const trm_step *step);

/* times.c. Nanoseconds of a monotonic clock. */
uint64_t trm_now(void);

#endif /* TREMULA_HOST_EXEC_ENGINE_H_ */
