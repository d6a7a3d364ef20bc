/* Owns: the data of a run: inputs, outputs and feeds. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool.h"
#include "tremula/inspect.h"

enum { INFEED_DEPTH = 4 };

typedef struct run_feed {
  const char *id;
  char kind;
  const trm_tensor_info *elements;
  trm_tensor_info *of_all; /* the elements of an outfeed of several replicas */
  size_t num_elements;
  /* The files of an infeed, one for each array of the element. */
  npy_array *arrays;
  int64_t count;   /* number of elements in the files */
  bool is_made_up; /* the one element comes again and again */
  trm_infeed *infeed;
  bool is_pushing;
  pthread_t pusher;
  trm_outfeed *outfeed;
} run_feed;

/* ---- Inputs --------------------------------------------------------------------------------- */

static bool has_type(const npy_array *array, int32_t skipped, const trm_tensor_info *info) {
  const bool is_byte =
      npy_is_byte_of_ml_dtypes(array->dtype) && npy_is_byte_of_ml_dtypes(info->dtype);
  if (array->dtype != info->dtype && !is_byte) return false;
  if (array->rank - skipped != info->rank) return false;
  for (int32_t d = 0; d < info->rank; ++d) {
    if (array->dims[skipped + d] != info->dims[d]) return false;
  }
  return true;
}

static trm_status refuse_type(const char *what, const char *name, const char *wanted,
                              const char *path, const npy_array *array, trm_error *error) {
  char has[TYPE_TEXT_SIZE];
  type_text(array->dtype, array->rank, array->dims, has, sizeof has);
  return fail(error, TRM_INVALID_ARGUMENT, "the %s '%s' is %s, but %s holds %s", what, name, wanted,
              path, has);
}

static const char *info_text(const trm_tensor_info *info, char *buffer) {
  return type_text(info->dtype, info->rank, info->dims, buffer, TYPE_TEXT_SIZE);
}

/* Lists the inputs that fit into the buffer: "x f32[2], y f32[3]". */
static void list_inputs(const run_data *data, char *buffer, size_t size) {
  const size_t count = trm_executable_num_inputs(data->executable);
  size_t used = 0;
  buffer[0] = '\0';
  for (size_t i = 0; i < count && used + TYPE_TEXT_SIZE < size; ++i) {
    char text[TYPE_TEXT_SIZE];
    const int added =
        snprintf(buffer + used, size - used, "%s%.200s %s", i > 0 ? ", " : "",
                 data->names.inputs[i], info_text(trm_executable_input(data->executable, i), text));
    used += added > 0 ? (size_t)added : 0;
  }
}

static trm_status read_input(run_data *data, char *argument, trm_error *error) {
  const char *path = split_assignment(argument);
  if (path == NULL) {
    return fail(error, TRM_INVALID_ARGUMENT, "--input wants NAME=FILE.npy, not '%s'", argument);
  }
  const int64_t i = interface_find_input(data->executable, &data->names, argument);
  if (i < 0) {
    char known[2048];
    list_inputs(data, known, sizeof known);
    return fail(error, TRM_NOT_FOUND, "there is no input '%s'. %s%s", argument,
                known[0] != '\0' ? "The inputs are: " : "The program has none", known);
  }
  if (data->inputs[i].data != NULL) {
    return fail(error, TRM_INVALID_ARGUMENT, "the input '%s' is given twice", argument);
  }
  const trm_status status = npy_read_file(path, &data->inputs[i], error);
  if (status != TRM_OK) return status;
  const trm_tensor_info *info = trm_executable_input(data->executable, (size_t)i);
  if (!has_type(&data->inputs[i], 0, info)) {
    char wanted[TYPE_TEXT_SIZE];
    return refuse_type("input", data->names.inputs[i], info_text(info, wanted), path,
                       &data->inputs[i], error);
  }
  return TRM_OK;
}

static trm_status make_array(const trm_tensor_info *info, const char *name, npy_array *array,
                             trm_error *error) {
  array->dtype = info->dtype;
  array->rank = info->rank;
  memcpy(array->dims, info->dims, (size_t)info->rank * sizeof *info->dims);
  return npy_allocate(array, name, error);
}

/* Fills the inputs without a file. The random state of each is the seed and the input's number. */
static trm_status make_up_inputs(run_data *data, const run_sources *sources, trm_error *error) {
  const size_t count = trm_executable_num_inputs(data->executable);
  int64_t *bounds = calloc(count + 1, sizeof *bounds);
  trm_status status = bounds != NULL && trm_inspect_input_bounds(data->executable, bounds)
                          ? TRM_OK
                          : fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  for (size_t i = 0; i < count && status == TRM_OK; ++i) {
    npy_array *input = &data->inputs[i];
    if (input->data != NULL) continue;
    status =
        make_array(trm_executable_input(data->executable, i), data->names.inputs[i], input, error);
    uint64_t state = sources->seed + ((uint64_t)i << 32);
    if (status == TRM_OK && sources->missing == MISSING_IS_RANDOM) {
      make_up(input, bounds[i], &state);
    }
  }
  free(bounds);
  return status;
}

static trm_status read_inputs(run_data *data, const run_sources *sources, trm_error *error) {
  const string_list *given = sources->inputs;
  for (size_t i = 0; i < given->count; ++i) {
    const trm_status status = read_input(data, given->items[i], error);
    if (status != TRM_OK) return status;
  }
  if (sources->missing != MISSING_IS_WRONG) return make_up_inputs(data, sources, error);
  const size_t count = trm_executable_num_inputs(data->executable);
  for (size_t i = 0; i < count; ++i) {
    if (data->inputs[i].data != NULL) continue;
    char text[TYPE_TEXT_SIZE];
    return fail(error, TRM_INVALID_ARGUMENT,
                "the input '%s' (number %zu, %s) is missing: give it with --input %s=FILE.npy",
                data->names.inputs[i], i,
                info_text(trm_executable_input(data->executable, i), text), data->names.inputs[i]);
  }
  return TRM_OK;
}

static trm_status make_outputs(run_data *data, trm_error *error) {
  const size_t count = trm_executable_num_outputs(data->executable);
  for (size_t o = 0; o < count; ++o) {
    const trm_status status = make_array(trm_executable_output(data->executable, o),
                                         data->names.outputs[o], &data->outputs[o], error);
    if (status != TRM_OK) return status;
  }
  return TRM_OK;
}

/* ---- Infeeds: their files ------------------------------------------------------------------- */

static run_feed *find_feed(run_data *data, const char *id, char kind) {
  for (size_t f = 0; f < data->num_feeds; ++f) {
    if (data->feeds[f].kind == kind && strcmp(data->feeds[f].id, id) == 0) return &data->feeds[f];
  }
  return NULL;
}

static trm_status read_infeed_file(run_feed *feed, size_t element, const char *path,
                                   trm_error *error) {
  npy_array *array = &feed->arrays[element];
  const trm_tensor_info *info = &feed->elements[element];
  const trm_status status = npy_read_file(path, array, error);
  if (status != TRM_OK) return status;
  if (array->rank < 1 || !has_type(array, 1, info)) {
    char text[TYPE_TEXT_SIZE], wanted[TYPE_TEXT_SIZE + 64];
    snprintf(wanted, sizeof wanted, "%s with one more dimension in front, the number of elements",
             info_text(info, text));
    return refuse_type("infeed", feed->id, wanted, path, array, error);
  }
  if (element > 0 && array->dims[0] != feed->count) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "the files of the infeed '%s' have %lld and %lld elements (their first dimension); "
                "their numbers must be equal",
                feed->id, (long long)feed->count, (long long)array->dims[0]);
  }
  feed->count = array->dims[0];
  return TRM_OK;
}

static trm_status read_infeed(run_data *data, char *argument, trm_error *error) {
  char *paths = split_assignment(argument);
  if (paths == NULL) {
    return fail(error, TRM_INVALID_ARGUMENT, "--infeed wants ID=FILE.npy[,FILE.npy], not '%s'",
                argument);
  }
  run_feed *feed = find_feed(data, argument, 'i');
  if (feed == NULL) {
    return fail(error, TRM_NOT_FOUND, "the program has no infeed '%s'", argument);
  }
  if (feed->arrays != NULL) {
    return fail(error, TRM_INVALID_ARGUMENT, "the infeed '%s' is given twice", argument);
  }
  feed->arrays = calloc(feed->num_elements + 1, sizeof *feed->arrays);
  if (feed->arrays == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  size_t given = 0;
  for (char *path = paths, *next; path != NULL; path = next, ++given) {
    char *comma = strchr(path, ',');
    next = comma != NULL ? comma + 1 : NULL;
    if (comma != NULL) *comma = '\0';
    if (given >= feed->num_elements) continue;
    const trm_status status = read_infeed_file(feed, given, path, error);
    if (status != TRM_OK) return status;
  }
  if (given != feed->num_elements) {
    return fail(error, TRM_INVALID_ARGUMENT,
                "an element of the infeed '%s' has %zu array%s, but %zu file%s given", feed->id,
                feed->num_elements, feed->num_elements == 1 ? "" : "s", given,
                given == 1 ? " is" : "s are");
  }
  return TRM_OK;
}

static trm_status find_feeds(run_data *data, trm_error *error) {
  char kind;
  const trm_tensor_info *elements;
  size_t num_elements;
  while (trm_executable_feed(data->executable, data->num_feeds, &kind, &elements, &num_elements)) {
    ++data->num_feeds;
  }
  data->feeds = calloc(data->num_feeds + 1, sizeof *data->feeds);
  if (data->feeds == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  for (size_t f = 0; f < data->num_feeds; ++f) {
    run_feed *feed = &data->feeds[f];
    feed->id =
        trm_executable_feed(data->executable, f, &feed->kind, &feed->elements, &feed->num_elements);
  }
  return TRM_OK;
}

/* Fills the one element of an infeed without a file. */
static trm_status make_up_infeed(run_feed *feed, const run_sources *sources, trm_error *error) {
  feed->arrays = calloc(feed->num_elements + 1, sizeof *feed->arrays);
  if (feed->arrays == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  feed->is_made_up = true;
  feed->count = 1;
  for (size_t e = 0; e < feed->num_elements; ++e) {
    const trm_status status = make_array(&feed->elements[e], feed->id, &feed->arrays[e], error);
    if (status != TRM_OK) return status;
    uint64_t state = sources->seed + ((uint64_t)e << 32) + 1;
    if (sources->missing == MISSING_IS_RANDOM) make_up(&feed->arrays[e], 0, &state);
  }
  return TRM_OK;
}

static trm_status read_infeeds(run_data *data, const run_sources *sources, trm_error *error) {
  const string_list *given = sources->infeeds;
  for (size_t i = 0; i < given->count; ++i) {
    const trm_status status = read_infeed(data, given->items[i], error);
    if (status != TRM_OK) return status;
  }
  for (size_t f = 0; f < data->num_feeds; ++f) {
    run_feed *feed = &data->feeds[f];
    if (feed->kind != 'i' || feed->arrays != NULL) continue;
    if (sources->missing != MISSING_IS_WRONG) {
      const trm_status status = make_up_infeed(feed, sources, error);
      if (status != TRM_OK) return status;
      continue;
    }
    return fail(error, TRM_INVALID_ARGUMENT,
                "the program reads the infeed '%s', whose elements have %zu array%s: give it with "
                "--infeed %s=FILE.npy[,FILE.npy]",
                feed->id, feed->num_elements, feed->num_elements == 1 ? "" : "s", feed->id);
  }
  return TRM_OK;
}

trm_status run_data_create(trm_executable *executable, const run_sources *sources, run_data *data,
                           trm_error *error) {
  *data = (run_data){.executable = executable};
  data->inputs = calloc(trm_executable_num_inputs(executable) + 1, sizeof *data->inputs);
  data->outputs = calloc(trm_executable_num_outputs(executable) + 1, sizeof *data->outputs);
  if (data->inputs == NULL || data->outputs == NULL ||
      !interface_names_create(executable, &data->names)) {
    return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  }
  trm_status status = read_inputs(data, sources, error);
  if (status == TRM_OK) status = make_outputs(data, error);
  if (status == TRM_OK) status = find_feeds(data, error);
  if (status == TRM_OK) status = read_infeeds(data, sources, error);
  return status;
}

/* ---- Feeds: running ------------------------------------------------------------------------- */

/* Pushes all elements, then the end. An infeed without a file repeats its element without end.
 * Stops early when the queue is closed. */
static void *push_all(void *argument) {
  run_feed *feed = argument;
  const void **element = calloc(feed->num_elements + 1, sizeof *element);
  trm_error error = {TRM_RESOURCE_EXHAUSTED, "out of memory"};
  bool accepted = element != NULL;
  for (int64_t n = 0; n < feed->count && accepted; n += feed->is_made_up ? 0 : 1) {
    for (size_t e = 0; e < feed->num_elements; ++e) {
      element[e] = (const char *)feed->arrays[e].data + (size_t)n * feed->elements[e].bytes;
    }
    if (trm_infeed_push(feed->infeed, element, &accepted, &error) != TRM_OK) {
      trm_infeed_end(feed->infeed, error.status, error.message);
      free(element);
      return NULL;
    }
  }
  if (element == NULL) {
    trm_infeed_end(feed->infeed, error.status, error.message);
  } else if (accepted) {
    char message[512];
    snprintf(message, sizeof message,
             "the infeed '%.200s' has no element left: its files have %lld, and the program reads "
             "more",
             feed->id, (long long)feed->count);
    trm_infeed_end(feed->infeed, TRM_OUT_OF_RANGE, message);
  }
  free(element);
  return NULL;
}

/* An outfeed gets an element of all replicas at once: they are its first dimension. */
static trm_status take_of_all(run_feed *feed, uint32_t replicas, trm_error *error) {
  if (replicas == 1) return TRM_OK;
  feed->of_all = calloc(feed->num_elements + 1, sizeof *feed->of_all);
  if (feed->of_all == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  for (size_t e = 0; e < feed->num_elements; ++e) {
    trm_tensor_info *info = &feed->of_all[e];
    *info = feed->elements[e];
    if (info->rank >= TRM_MAX_RANK - 1) { /* a file has one more for the number of elements */
      return fail(error, TRM_UNIMPLEMENTED, "the outfeed '%s' has too many dimensions", feed->id);
    }
    memmove(info->dims + 1, info->dims, (size_t)info->rank * sizeof *info->dims);
    info->dims[0] = replicas;
    ++info->rank;
    info->bytes *= replicas;
  }
  feed->elements = feed->of_all;
  return TRM_OK;
}

static trm_status start_feed(run_feed *feed, trm_engine *engine, trm_error *error) {
  trm_status status;
  if (feed->kind == 'o') {
    status = take_of_all(feed, trm_engine_num_replicas(engine), error);
    if (status != TRM_OK) return status;
    status = trm_outfeed_create(feed->elements, feed->num_elements, false, &feed->outfeed, error);
    if (status != TRM_OK) return status;
    return trm_engine_bind_outfeed(engine, feed->id, feed->outfeed, error);
  }
  status =
      trm_infeed_create(feed->elements, feed->num_elements, INFEED_DEPTH, &feed->infeed, error);
  if (status != TRM_OK) return status;
  status = trm_engine_bind_infeed(engine, feed->id, feed->infeed, error);
  if (status != TRM_OK) return status;
  trm_infeed_open(feed->infeed);
  feed->is_pushing = pthread_create(&feed->pusher, NULL, push_all, feed) == 0;
  if (feed->is_pushing) return TRM_OK;
  trm_infeed_close(feed->infeed);
  return fail(error, TRM_RESOURCE_EXHAUSTED, "the host has no thread left for an infeed");
}

trm_status run_data_start_feeds(run_data *data, trm_engine *engine, trm_error *error) {
  for (size_t f = 0; f < data->num_feeds; ++f) {
    const trm_status status = start_feed(&data->feeds[f], engine, error);
    if (status != TRM_OK) return status;
  }
  return TRM_OK;
}

void run_data_stop_feeds(run_data *data) {
  for (size_t f = 0; f < data->num_feeds; ++f) {
    run_feed *feed = &data->feeds[f];
    if (!feed->is_pushing) continue;
    trm_infeed_close(feed->infeed);
    pthread_join(feed->pusher, NULL);
    feed->is_pushing = false;
  }
}

/* ---- Results -------------------------------------------------------------------------------- */

/* Makes a file name from a name in the model: letters, digits and "_.-" stay. */
static void file_name(char *buffer, size_t size, const char *name) {
  size_t used = 0;
  for (; *name != '\0' && used + 1 < size; ++name) {
    const bool stays = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                       (*name >= '0' && *name <= '9') || strchr("_-.", *name) != NULL;
    buffer[used] = stays && (used > 0 || *name != '.') ? *name : '_';
    ++used;
  }
  buffer[used] = '\0';
}

/* The destination of results. A number distinguishes equal file names. */
typedef struct writer {
  const char *folder;
  char (*taken)[224];
  size_t num_taken;
} writer;

static bool is_taken(const writer *w, const char *name) {
  for (size_t i = 0; i < w->num_taken; ++i) {
    if (strcmp(w->taken[i], name) == 0) return true;
  }
  return false;
}

static trm_status write_array(writer *w, const char *name, const npy_array *array,
                              trm_error *error) {
  char type[TYPE_TEXT_SIZE];
  type_text(array->dtype, array->rank, array->dims, type, sizeof type);
  if (w->folder == NULL) {
    printf("%s = %s\n", name, type);
    show_array(stdout, array);
    return TRM_OK;
  }
  char stem[200], *own = w->taken[w->num_taken];
  file_name(stem, sizeof stem, name);
  snprintf(own, sizeof *w->taken, "%s", stem);
  for (unsigned number = 2; is_taken(w, own); ++number) {
    snprintf(own, sizeof *w->taken, "%s-%u", stem, number);
  }
  ++w->num_taken;
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s.npy", w->folder, own) >= (int)sizeof path) {
    return fail(error, TRM_INVALID_ARGUMENT, "the path of the folder %.100s... is too long",
                w->folder);
  }
  const trm_status status = npy_write_file(path, array, error);
  if (status == TRM_OK) printf("wrote %s: %s\n", path, type);
  return status;
}

static trm_status write_outfeed(writer *w, const run_feed *feed, trm_error *error) {
  size_t count;
  void **blocks;
  trm_status status = trm_outfeed_take(feed->outfeed, &count, &blocks, error);
  if (status != TRM_OK) return status;
  for (size_t e = 0; e < feed->num_elements; ++e) {
    const trm_tensor_info *info = &feed->elements[e];
    npy_array array = {.dtype = info->dtype,
                       .rank = info->rank + 1,
                       .dims = {(int64_t)count},
                       .bytes = count * info->bytes,
                       .data = blocks[e]};
    memcpy(array.dims + 1, info->dims, (size_t)info->rank * sizeof *info->dims);
    char name[512];
    snprintf(name, sizeof name, feed->num_elements == 1 ? "%.400s" : "%.400s:%zu", feed->id, e);
    if (status == TRM_OK) status = write_array(w, name, &array, error);
    trm_free(blocks[e]);
  }
  trm_free(blocks);
  return status;
}

trm_status run_data_write(run_data *data, const char *folder, trm_error *error) {
  if (folder != NULL && mkdir(folder, 0777) != 0 && errno != EEXIST) {
    return fail(error, TRM_NOT_FOUND, "cannot make the folder %s: %s", folder, strerror(errno));
  }
  const size_t num_outputs = trm_executable_num_outputs(data->executable);
  size_t most = num_outputs;
  for (size_t f = 0; f < data->num_feeds; ++f) most += data->feeds[f].num_elements;
  writer w = {.folder = folder, .taken = calloc(most + 1, sizeof *w.taken)};
  if (w.taken == NULL) return fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory");
  trm_status status = TRM_OK;
  for (size_t o = 0; o < num_outputs && status == TRM_OK; ++o) {
    status = write_array(&w, data->names.outputs[o], &data->outputs[o], error);
  }
  for (size_t f = 0; f < data->num_feeds && status == TRM_OK; ++f) {
    if (data->feeds[f].kind == 'o') status = write_outfeed(&w, &data->feeds[f], error);
  }
  free(w.taken);
  return status;
}

void run_data_free(run_data *data) {
  run_data_stop_feeds(data);
  for (size_t f = 0; f < data->num_feeds; ++f) {
    run_feed *feed = &data->feeds[f];
    for (size_t e = 0; feed->arrays != NULL && e < feed->num_elements; ++e) {
      npy_free(&feed->arrays[e]);
    }
    free(feed->arrays);
    free(feed->of_all);
    if (feed->infeed != NULL) trm_infeed_release(feed->infeed);
    if (feed->outfeed != NULL) trm_outfeed_release(feed->outfeed);
  }
  free(data->feeds);
  if (data->executable != NULL) {
    const size_t num_inputs = trm_executable_num_inputs(data->executable);
    const size_t num_outputs = trm_executable_num_outputs(data->executable);
    for (size_t i = 0; data->inputs != NULL && i < num_inputs; ++i) npy_free(&data->inputs[i]);
    for (size_t o = 0; data->outputs != NULL && o < num_outputs; ++o) npy_free(&data->outputs[o]);
  }
  free(data->inputs);
  free(data->outputs);
  interface_names_free(&data->names);
  *data = (run_data){0};
}
