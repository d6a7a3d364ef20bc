/* Declarations that the files of `poprun` share.
 *
 *   poprun.c            the order of things: options, hosts, IPUs, command, run
 *   poprun_options.c    the command line and configuration files; the table is poprun_options.def
 *   poprun_hosts.c      lists of hosts, and which instance runs where
 *   poprun_mpirun.c     the command line of mpirun
 *   poprun_topology.c   the table of --print-topology
 *   poprun_run.c        the process mpirun: signals, its end, which instance failed
 *   poprun_output.c     the output: of whom it is, files, what is shown
 *   poprun_instance.c   the processes between mpirun and an instance
 *   poprun_text.c       lists of words, the log, messages */
#ifndef TREMULA_TOOLS_POPRUN_H_
#define TREMULA_TOOLS_POPRUN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "tremula/device.h"

enum { POPRUN_FAILED = 1, POPRUN_USAGE = 2 };

/* ---- poprun_text.c -------------------------------------------------------------------------- */

/* A list of texts that belong to it, with a NULL at the end. */
typedef struct words {
  char **items;
  size_t count;
} words;
/* Appends. Without memory they end the process. */
void words_add(words *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void words_append(words *list, const words *more);
/* Appends the parts of a line as a shell would: blanks separate, quotes and \ keep. False: a quote
 * is open. */
bool words_split(words *list, const char *line);
void words_free(words *list);

/* "poprun: <message>" as one line on stderr. Return POPRUN_FAILED and POPRUN_USAGE. */
int poprun_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int poprun_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Such a line that is no failure. */
void poprun_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets how much is logged: 0, 1 (information) or 2 (details). */
void poprun_set_verbosity(int level);
/* "HH:MM:SS.mmm 1 POPRUN [I] text" on stderr, or [D] for level 2. */
void poprun_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- poprun_options.c ----------------------------------------------------------------------- */

typedef struct poprun_options {
#define NUMBER(member, name, value, least, help) long member;
#define TEXT(member, name, value, help) char *member;
#define LIST(member, name, help) words member;
#define SWITCH(member, name, value, help) bool member;
#define VIPU(member, name, help) char *member;
#include "poprun_options.def"
#undef NUMBER
#undef TEXT
#undef LIST
#undef SWITCH
#undef VIPU
  char **program; /* its arguments; of argv */
  bool is_done;   /* --help or --version: nothing runs */
} poprun_options;

/* Returns 0, or the exit code after a message. */
int poprun_read_options(poprun_options *options, int argc, char **argv);
void poprun_free_options(poprun_options *options);

/* ---- poprun_hosts.c ------------------------------------------------------------------------- */

typedef struct poprun_instance {
  const char *host;      /* of the job's hosts */
  bool is_local;         /* the host is this one */
  long local, num_local; /* its number among the instances of its host, and their number */
  trm_device *device;    /* reserved; NULL: none */
  char ids[64];          /* TREMULA_DEVICE_ID */
  char reservation[64];  /* TREMULA_RESERVATION, or "" */
} poprun_instance;

typedef struct poprun_job {
  poprun_options options;
  words hosts;
  poprun_instance *instances; /* options.num_instances of them */
  long local_replicas;        /* of an instance */
  trm_inventory *inventory;
  char *mpirun; /* NULL: the one instance runs without */
  bool is_mpich;
  const char *output_folder; /* of --output-filename; NULL: none */
} poprun_job;

/* "h[0-2,4],k" -> h0 h1 h2 h4 k. Returns 0, or the exit code after a message. */
int poprun_read_hosts(const char *text, words *out_hosts);
/* Fills in hosts, instances and local_replicas. */
int poprun_place_instances(poprun_job *job);
/* Whether ssh reaches the other hosts without a question. */
int poprun_check_hosts(const poprun_job *job);

/* ---- poprun_mpirun.c ------------------------------------------------------------------------ */

/* Finds mpirun, and whose it is. */
int poprun_find_mpirun(poprun_job *job);
/* The command line; also job->output_folder. */
int poprun_build_command(poprun_job *job, words *out_command);
/* Logs it as a detail, without the values of the user's own variables. */
void poprun_log_command(const words *command);
/* The variables of instance `index`, as NAME=VALUE. */
void poprun_environment(const poprun_job *job, long index, words *out_variables);

/* ---- poprun_topology.c ---------------------------------------------------------------------- */

void poprun_print_topology(const poprun_job *job);

/* ---- poprun_output.c ------------------------------------------------------------------------ */

typedef struct poprun_output poprun_output;
/* Each instance's output also goes into files, if the job has a folder for it. */
poprun_output *poprun_output_new(const poprun_job *job);
/* Takes what mpirun has written to its standard output (0) or error (1). */
void poprun_output_take(poprun_output *output, int stream, const char *data, size_t size);
void poprun_output_end(poprun_output *output);
/* How an instance failed; pid -1 and host "": not known. */
typedef struct poprun_failure {
  long instance, pid; /* instance -1: none has failed */
  int status, signal; /* signal 0: it ended by itself */
  char host[256];
} poprun_failure;
/* The first instance that failed, as it was reported. */
poprun_failure poprun_output_failure(const poprun_output *output);
/* Shows the last lines of an instance whose output was not shown. */
void poprun_output_show_last(const poprun_output *output, long instance);
void poprun_output_free(poprun_output *output);

/* ---- poprun_instance.c ---------------------------------------------------------------------- */

/* The first argument of a poprun that starts an instance, and what begins its report. */
#define POPRUN_INSTANCE "--run-instance"
#define POPRUN_REPORT "poprun-failed "
/* How long an instance may take to end after SIGTERM. */
enum { POPRUN_GRACE_MS = 10000 };
/* Runs the program to its end. Returns its exit status. */
int poprun_run_instance(char **program);

/* ---- poprun_run.c --------------------------------------------------------------------------- */

/* Waits for a child. Returns its status as waitpid() has it; -1: there is none. */
int poprun_wait_for(pid_t pid);
/* Runs the command to its end. Returns the exit status. */
int poprun_run(poprun_job *job, const words *command);

#endif /* TREMULA_TOOLS_POPRUN_H_ */
