/* Owns: the output of a job, in which mpirun marks what each instance has written:
 *
 *     [1,0]<stdout>: epoch 1
 *
 * Text is handed on as it comes, also in the middle of a line, as progress bars need. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "poprun.h"

enum { KEPT_BYTES = 1 << 16, SHOWN_LINES = 50, TAG_SIZE = 32 };

/* The last of somebody's text. */
typedef struct tail {
  char *data; /* KEPT_BYTES + 1; NULL before the first */
  size_t size;
} tail;

/* One of mpirun's two streams. */
typedef struct stream {
  long owner;         /* of what comes next; -1: mpirun itself */
  char tag[TAG_SIZE]; /* that was read and not shown yet */
  size_t num_tag;
  bool is_first;          /* nothing came yet after a tag or the end of a line */
  char pending[TAG_SIZE]; /* what may be the beginning of a tag */
  size_t num_pending;
} stream;

struct poprun_output {
  long num_instances, only, untagged; /* whose text without a tag is; -1: mpirun's */
  tail *tails;                        /* of the instances, and of mpirun */
  FILE **files;                       /* two for each instance; NULL: none */
  stream streams[2];
  poprun_failure failure;
};

static void keep(tail *t, const char *data, size_t size) {
  if (t->data == NULL) t->data = calloc(KEPT_BYTES + 1, 1);
  if (t->data == NULL) return;
  if (size > KEPT_BYTES) {
    data += size - KEPT_BYTES;
    size = KEPT_BYTES;
  }
  if (t->size + size > KEPT_BYTES) {
    const size_t drop = t->size + size - KEPT_BYTES;
    memmove(t->data, t->data + drop, t->size - drop);
    t->size -= drop;
  }
  memcpy(t->data + t->size, data, size);
  t->size += size;
  t->data[t->size] = '\0';
}

/* ---- Files ---------------------------------------------------------------------------------- */

static FILE *open_file(const char *folder, long instance, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/1/rank.%ld/%s", folder, instance, name);
  for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; ++slash) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  if (file == NULL) poprun_note("cannot write %s: %s", path, strerror(errno));
  return file;
}

poprun_output *poprun_output_new(const poprun_job *job) {
  const long num_instances = job->options.num_instances;
  const char *folder = job->output_folder;
  poprun_output *output = calloc(1, sizeof *output);
  if (output == NULL) exit(poprun_fail("out of memory"));
  output->num_instances = num_instances;
  output->only = job->options.only_output_from;
  output->untagged = job->mpirun == NULL ? 0 : -1;
  output->failure.instance = -1;
  for (int number = 0; number < 2; ++number) {
    output->streams[number].owner = output->untagged;
    output->streams[number].is_first = true;
  }
  output->tails = calloc((size_t)num_instances, sizeof *output->tails);
  if (output->tails == NULL) exit(poprun_fail("out of memory"));
  if (folder == NULL) return output;
  output->files = calloc(2 * (size_t)num_instances, sizeof(FILE *));
  for (long i = 0; output->files != NULL && i < num_instances; ++i) {
    output->files[2 * i] = open_file(folder, i, "stdout");
    output->files[2 * i + 1] = open_file(folder, i, "stderr");
  }
  return output;
}

/* ---- Whose text it is ----------------------------------------------------------------------- */

/* 1: a tag, whose owner and stream are returned; 0: it may become one; -1: it is none. */
static int match_tag(const char *text, size_t size, long *out_owner, int *out_stream) {
  static const char *const ends[] = {"]<stdout>:", "]<stderr>:"};
  const size_t head = size < 3 ? size : 3;
  if (memcmp(text, "[1,", head) != 0) return -1;
  if (size <= 3) return 0;
  long owner = 0;
  size_t i = 3;
  for (; i < size && text[i] >= '0' && text[i] <= '9' && i < 10; ++i) {
    owner = 10 * owner + (text[i] - '0');
  }
  for (int number = 0; number < 2; ++number) {
    const size_t length = strlen(ends[number]), left = size - i;
    if (memcmp(text + i, ends[number], left < length ? left : length) != 0) continue;
    if (left < length) return 0;
    *out_owner = owner;
    *out_stream = number;
    return 1;
  }
  return -1;
}

static void show(poprun_output *output, int number, long owner, const char *data, size_t size) {
  if (owner < 0 || output->only < 0 || owner == output->only) {
    fwrite(data, 1, size, number == 0 ? stdout : stderr);
  } else {
    keep(&output->tails[owner], data, size);
  }
}

/* Whether a line is the report of a failed instance, which nobody sees. */
static bool take_report(poprun_output *output, long owner, const char *line, size_t size) {
  poprun_failure f = {.instance = owner};
  char text[512];
  snprintf(text, sizeof text, "%.*s", (int)size, line);
  if (sscanf(text, " " POPRUN_REPORT "%255s %ld %d %d", f.host, &f.pid, &f.status, &f.signal) !=
      4) {
    return false;
  }
  if (output->failure.instance < 0) output->failure = f;
  return true;
}

/* Text of an instance, up to the end of a line or a part of one. */
static void take_own(poprun_output *output, int number, const char *data, size_t size) {
  stream *s = &output->streams[number];
  if (s->is_first && take_report(output, s->owner, data, size)) return;
  show(output, number, s->owner, s->tag, s->num_tag);
  show(output, number, s->owner, data, size);
  const size_t blank = s->num_tag > 0 && data[0] == ' ';
  FILE *file = output->files != NULL ? output->files[2 * s->owner + number] : NULL;
  if (file != NULL) fwrite(data + blank, 1, size - blank, file);
}

/* The text before the next tag. After the end of a line it belongs to nobody. */
static void take_text(poprun_output *output, int number, const char *data, size_t size) {
  stream *s = &output->streams[number];
  while (size > 0) {
    const char *newline = memchr(data, '\n', size);
    const size_t part = newline == NULL ? size : (size_t)(newline - data) + 1;
    if (s->owner >= 0) {
      take_own(output, number, data, part);
    } else {
      show(output, number, -1, data, part);
    }
    s->num_tag = 0;
    s->is_first = newline != NULL;
    if (newline != NULL) s->owner = output->untagged;
    data += part;
    size -= part;
  }
}

static void take_pending(poprun_output *output, int number) {
  stream *s = &output->streams[number];
  while (s->num_pending > 0) {
    long owner;
    int tagged;
    const int match = match_tag(s->pending, s->num_pending, &owner, &tagged);
    if (match == 0) return;
    if (match == 1) {
      s->owner = owner < output->num_instances ? owner : -1;
      memcpy(s->tag, s->pending, s->num_pending);
      s->num_tag = s->num_pending;
      s->is_first = true;
      s->num_pending = 0;
      return;
    }
    const char *next = memchr(s->pending + 1, '[', s->num_pending - 1);
    const size_t part = next == NULL ? s->num_pending : (size_t)(next - s->pending);
    take_text(output, number, s->pending, part);
    s->num_pending -= part;
    memmove(s->pending, s->pending + part, s->num_pending);
  }
}

void poprun_output_take(poprun_output *output, int number, const char *data, size_t size) {
  stream *s = &output->streams[number];
  while (size > 0) {
    if (s->num_pending > 0) {
      s->pending[s->num_pending++] = *data++;
      --size;
      take_pending(output, number);
      continue;
    }
    const char *bracket = memchr(data, '[', size);
    const size_t before = bracket == NULL ? size : (size_t)(bracket - data);
    take_text(output, number, data, before);
    data += before;
    size -= before;
    if (bracket != NULL) {
      s->pending[s->num_pending++] = *data++;
      --size;
    }
  }
  fflush(number == 0 ? stdout : stderr);
}

void poprun_output_end(poprun_output *output) {
  for (int number = 0; number < 2; ++number) {
    stream *s = &output->streams[number];
    take_text(output, number, s->pending, s->num_pending);
    s->num_pending = 0;
  }
  fflush(stdout);
  fflush(stderr);
}

/* ---- The last lines ------------------------------------------------------------------------- */

poprun_failure poprun_output_failure(const poprun_output *output) { return output->failure; }

void poprun_output_show_last(const poprun_output *output, long instance) {
  const tail *t = &output->tails[instance];
  if (t->size == 0) return;
  size_t start = t->size;
  for (int lines = 0; start > 0; --start) {
    lines += t->data[start - 1] == '\n' && start < t->size;
    if (lines == SHOWN_LINES) break;
  }
  poprun_note("the last lines of instance %ld:", instance);
  fwrite(t->data + start, 1, t->size - start, stderr);
  if (t->data[t->size - 1] != '\n') fputc('\n', stderr);
}

void poprun_output_free(poprun_output *output) {
  for (long i = 0; i < output->num_instances; ++i) free(output->tails[i].data);
  for (long i = 0; output->files != NULL && i < 2 * output->num_instances; ++i) {
    if (output->files[i] != NULL) fclose(output->files[i]);
  }
  free(output->tails);
  free(output->files);
  free(output);
}
