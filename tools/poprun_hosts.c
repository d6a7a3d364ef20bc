/* Owns: the hosts of a job, and which instance runs on which. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "poprun.h"

enum { MOST_HOSTS = 4096 };

/* ---- Lists ---------------------------------------------------------------------------------- */

/* Adds "<head><number><tail>" for a range "3" or "0-2" of `length` bytes. */
static bool add_range(words *out, const char *head, size_t head_length, const char *range,
                      size_t length, const char *tail, size_t tail_length) {
  char *end;
  const long first = strtol(range, &end, 10);
  long last = first;
  if (end == range) return false;
  const int width = (int)(end - range); /* h[08-10] keeps its zeros */
  if (*end == '-') {
    const char *second = end + 1;
    last = strtol(second, &end, 10);
    if (end == second) return false;
  }
  if (end != range + length || first < 0 || last < first || last - first > MOST_HOSTS) return false;
  for (long i = first; i <= last; ++i) {
    words_add(out, "%.*s%0*ld%.*s", (int)head_length, head, width, i, (int)tail_length, tail);
  }
  return true;
}

/* One entry of a list: "h0", or "h[0-2,4]x". */
static bool add_entry(words *out, const char *entry, size_t length) {
  const char *end = entry + length;
  const char *open = memchr(entry, '[', length);
  const char *close = memchr(entry, ']', length);
  if (open == NULL && close == NULL) {
    words_add(out, "%.*s", (int)length, entry);
    return length > 0;
  }
  if (open == NULL || close == NULL || close < open) return false;
  for (const char *range = open + 1; range <= close;) {
    const size_t size = strcspn(range, ",]");
    if (!add_range(out, entry, (size_t)(open - entry), range, size, close + 1,
                   (size_t)(end - close - 1))) {
      return false;
    }
    range += size + 1;
  }
  return true;
}

/* What could be an option, or a text for a shell, is no name of a host. */
static bool is_name(const char *host) {
  return *host != '\0' && *host != '-' &&
         strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@") ==
             strlen(host);
}

int poprun_read_hosts(const char *text, words *out_hosts) {
  const size_t before = out_hosts->count;
  for (const char *entry = text;; ++entry) {
    size_t length = 0;
    for (bool inside = false; entry[length] != '\0' && (inside || entry[length] != ','); ++length) {
      inside = entry[length] == '[' || (inside && entry[length] != ']');
    }
    if (!add_entry(out_hosts, entry, length)) {
      return poprun_usage("'%s' is not a list of hosts, such as h0,h1 or h[0-2,4]", text);
    }
    entry += length;
    if (*entry == '\0') break;
  }
  for (size_t i = before; i < out_hosts->count; ++i) {
    if (!is_name(out_hosts->items[i])) {
      return poprun_usage("'%s' is not the name of a host", out_hosts->items[i]);
    }
  }
  return 0;
}

static int read_file(const char *path, words *out_hosts) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return poprun_fail("cannot read %s: %s", path, strerror(errno));
  char *line = NULL;
  size_t room = 0;
  int code = 0;
  while (code == 0 && getline(&line, &room, file) >= 0) {
    line[strcspn(line, "#\r\n")] = '\0';
    words parts = {0};
    words_split(&parts, line);
    if (parts.count > 0) code = poprun_read_hosts(parts.items[0], out_hosts);
    words_free(&parts);
  }
  free(line);
  fclose(file);
  if (code == 0 && out_hosts->count == 0) return poprun_fail("%s names no host", path);
  return code;
}

/* ---- Instances ------------------------------------------------------------------------------ */

static bool is_this_host(const char *host) {
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, own) == 0;
}

int poprun_place_instances(poprun_job *job) {
  const poprun_options *options = &job->options;
  int code = 0;
  if (options->host_file[0] != '\0') code = read_file(options->host_file, &job->hosts);
  if (options->host[0] != '\0') code = poprun_read_hosts(options->host, &job->hosts);
  if (code != 0) return code;
  if (job->hosts.count == 0) words_add(&job->hosts, "localhost");
  const long num_hosts = (long)job->hosts.count;
  if (options->num_instances % num_hosts != 0) {
    return poprun_usage("--num-instances %ld cannot be divided evenly among %ld hosts",
                        options->num_instances, num_hosts);
  }
  job->local_replicas = options->num_replicas / options->num_instances;
  job->instances = calloc((size_t)options->num_instances, sizeof *job->instances);
  if (job->instances == NULL) return poprun_fail("out of memory");
  const long each = options->num_instances / num_hosts;
  for (long i = 0; i < options->num_instances; ++i) {
    poprun_instance *instance = &job->instances[i];
    instance->host = job->hosts.items[i / each];
    instance->is_local = is_this_host(instance->host);
    instance->local = i % each;
    instance->num_local = each;
  }
  return 0;
}

/* Runs `ssh host true`; whether it worked. */
static bool answers(const char *host) {
  const pid_t pid = fork();
  if (pid == 0) {
    execlp("ssh", "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, "true",
           (char *)NULL);
    _exit(127);
  }
  return poprun_wait_for(pid) == 0;
}

/* Open MPI hands the path of its folder to the other hosts' shells as it is. */
static bool is_for_shells(const poprun_job *job) {
  return job->is_mpich || job->mpirun == NULL || strpbrk(job->mpirun, " \t'\"\\$&;()*?") == NULL;
}

int poprun_check_hosts(const poprun_job *job) {
  for (size_t i = 0; i < job->hosts.count; ++i) {
    const char *host = job->hosts.items[i];
    if (is_this_host(host)) continue;
    if (!is_for_shells(job)) {
      return poprun_fail("Open MPI's %s cannot start a part of itself on the host %s, because the "
                         "path has a space or a character that a shell reads. Install Open MPI at "
                         "another path, such as another Python environment's; TREMULA_MPIRUN names "
                         "its mpirun.",
                         job->mpirun, host);
    }
    poprun_log(1, "asking the host %s", host);
    if (answers(host)) continue;
    return poprun_fail("ssh does not reach the host %s without a password: `ssh %s true` must "
                       "work. `ssh-copy-id %s` puts your key there (`ssh-keygen` makes one), and "
                       "the first `ssh %s` learns the host's key.",
                       host, host, host, host);
  }
  return 0;
}
