/* Owns: debug.cbor, a sequence of CBOR maps (RFC 8742): the sources of programs and variables.
 *
 * All executables of a process write one file: the first makes it, the others append. The first map
 * names the stream, so that a profile recognises its file. The parent of an instruction's map is
 * the map of its TensorFlow op. */
#define _GNU_SOURCE
#include <cbor.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "report/write.h"

static const char file_name[] = "debug.cbor";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_id = 1;
/* The process that made the file: a fork makes its own, and so does a process that changes its
 * working directory. */
static pid_t writer;
static trm_report_debug stream;

static void put(trm_text *out, const unsigned char *data, size_t size) {
  trm_text_append(out, (const char *)data, size);
}

static void put_map(trm_text *out, size_t pairs) {
  unsigned char buffer[9];
  put(out, buffer, cbor_encode_map_start(pairs, buffer, sizeof buffer));
}

static void put_text(trm_text *out, const char *text) {
  unsigned char buffer[9];
  if (text == NULL) text = "";
  put(out, buffer, cbor_encode_string_start(strlen(text), buffer, sizeof buffer));
  trm_text_append(out, text, strlen(text));
}

static void put_number(trm_text *out, const char *key, uint64_t value) {
  unsigned char buffer[9];
  put_text(out, key);
  put(out, buffer, cbor_encode_uint(value, buffer, sizeof buffer));
}

static void put_pair(trm_text *out, const char *key, const char *value) {
  put_text(out, key);
  put_text(out, value);
}

static void put_context(trm_text *out, uint64_t id, uint64_t parent, const char *layer,
                        const char *name, const trm_program_source *source) {
  put_map(out, 6);
  put_number(out, "id", id);
  put_number(out, "parentId", parent);
  put_pair(out, "layer", layer);
  put_pair(out, "name", name);
  put_text(out, "location");
  put_map(out, source->file != NULL ? 2u : 0u);
  if (source->file != NULL) {
    put_pair(out, "fileName", source->file);
    put_number(out, "lineNumber", source->line > 0 ? (uint64_t)source->line : 0);
  }
  put_text(out, "properties");
}

/* Orders sources by op, so that the instructions of one op share a parent. */
static int by_op(const void *a, const void *b, void *context) {
  const trm_program_source *sources = context;
  const uint32_t l = *(const uint32_t *)a, r = *(const uint32_t *)b;
  const int order = strcmp(sources[l].op_name, sources[r].op_name);
  return order != 0 ? order : (l > r) - (l < r);
}

/* Instruction s has the id `first` + s; the ids of ops follow. *out_used: the number of ids. */
static trm_status put_sources(const trm_program *p, uint64_t first, trm_text *out,
                              uint64_t *out_used, trm_error *error) {
  uint32_t *order = trm_allocate_zeroed((size_t)p->num_sources + 1, sizeof *order);
  CHECK_MEMORY(order, "debug information");
  for (uint32_t s = 0; s < p->num_sources; ++s) order[s] = s;
  qsort_r(order, p->num_sources, sizeof *order, by_op, p->sources);
  uint64_t op = 0, used = p->num_sources;
  for (uint32_t o = 0; o < p->num_sources; ++o) {
    const trm_program_source *source = &p->sources[order[o]];
    const bool named = source->op_name[0] != '\0';
    if (named && (o == 0 || strcmp(p->sources[order[o - 1]].op_name, source->op_name) != 0)) {
      op = first + used++;
      put_context(out, op, 0, "tensorflow", source->op_name, source);
      put_map(out, 2);
      put_pair(out, "opType", source->op_type);
      put_pair(out, "scope", source->layer);
    }
    put_context(out, first + order[o], named ? op : 0, "hlo", source->hlo_name, source);
    put_map(out, 1u + (source->plan != NULL) + (source->note != NULL));
    put_pair(out, "opcode", source->opcode);
    if (source->plan != NULL) put_pair(out, "plan", source->plan);
    if (source->note != NULL) put_pair(out, "note", source->note);
  }
  trm_free(order);
  *out_used = used;
  return TRM_OK;
}

/* Gives errno, or 0. After a failure the file has its former length. */
static int append(int file, const trm_text *text) {
  struct stat info;
  if (fstat(file, &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EEXIST;
  for (size_t done = 0; done < text->length;) {
    const ssize_t written =
        pwrite(file, text->data + done, text->length - done, info.st_size + (off_t)done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int problem = errno;
      (void)!ftruncate(file, info.st_size);
      return problem;
    }
    done += (size_t)written;
  }
  return 0;
}

/* A symbolic link at this path is not followed, and a FIFO is not waited for. */
static trm_status append_file(const char *path, const trm_text *text, trm_error *error) {
  const int file =
      open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  int problem = file < 0 ? errno : append(file, text);
  if (file >= 0 && close(file) != 0 && problem == 0) problem = errno;
  if (problem == ELOOP || problem == ENXIO || problem == EEXIST) {
    FAIL(UNAVAILABLE, "cannot write %s: it is not a regular file", path);
  }
  if (problem != 0) FAIL(UNAVAILABLE, "cannot write %s: %s", path, strerror(problem));
  return TRM_OK;
}

static trm_status make_file(const char *path, const trm_text *text, trm_error *error) {
  trm_new_file file;
  TRY(trm_new_file_open(path, &file, error));
  if (fwrite(text->data, 1, text->length, file.stream) != text->length) file.problem = errno;
  return trm_new_file_close(&file, path, true, error);
}

static trm_status write_locked(trm_report_source *source, trm_error *error) {
  trm_text text = {0};
  char path[TRM_REPORT_PATH], folder[TRM_REPORT_PATH - sizeof file_name - 1];
  if (getcwd(folder, sizeof folder) == NULL) {
    FAIL(UNAVAILABLE, "cannot write debug.cbor: the working directory is gone");
  }
  snprintf(path, sizeof path, "%s/%s", folder, file_name);
  const bool fresh = writer != getpid() || strcmp(path, stream.path) != 0;
  if (fresh) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(stream.path, sizeof stream.path, "%s", path);
    snprintf(stream.stream, sizeof stream.stream, "%ld-%lld%09ld", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec);
    put_map(&text, 2);
    put_number(&text, "format", TRM_REPORT_FORMAT);
    put_pair(&text, "stream", stream.stream);
  }
  uint64_t used = 0;
  trm_status status = put_sources(source->program, next_id, &text, &used, error);
  if (status == TRM_OK && text.failed) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory for debug information");
  }
  if (status == TRM_OK && text.length > 0) {
    status = (fresh ? make_file : append_file)(stream.path, &text, error);
  }
  trm_text_free(&text);
  TRY(status);
  writer = getpid();
  source->debug = stream;
  source->debug.first = next_id;
  next_id += used;
  return TRM_OK;
}

trm_status trm_report_write_debug(trm_report_source *source, trm_error *error) {
  pthread_mutex_lock(&lock);
  const trm_status status = write_locked(source, error);
  pthread_mutex_unlock(&lock);
  return status;
}
