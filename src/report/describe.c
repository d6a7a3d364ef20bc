/* Owns: describing a program in one document (trm_report_describe). */
#define _GNU_SOURCE
#include "report/describe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "report/read.h"
#include "report/write.h"

static bool is_model(const trm_executable *executable) {
  return executable->options.estimate.ipu_model;
}

/* `what` is the document's name in messages. */
static trm_status put_part(const trm_executable *executable, const trm_program *program,
                           trm_report_part part, trm_stream *stream, const char *what,
                           trm_error *error) {
  trm_stream_open(stream);
  switch (part) {
    case TRM_REPORT_GRAPH:
      TRY(trm_describe_graph(program, is_model(executable), stream, error));
      break;
    case TRM_REPORT_EXECUTION: trm_describe_execution(program, stream); break;
    case TRM_REPORT_TENSOR_MAP: TRY(trm_describe_tensor_map(program, stream, error)); break;
    case TRM_REPORT_INSTRUCTIONS: TRY(trm_describe_instructions(program, stream, error)); break;
    default: FAIL(INVALID_ARGUMENT, "there is no part %d of a report", (int)part);
  }
  return trm_stream_close(stream, what, error);
}

/* ---- As text: what `tremula report` prints of a profile, which is made and deleted ----------- */

static trm_status write_profile(const trm_executable *executable, const trm_program *program,
                                const char *path, trm_error *error) {
  trm_engine_options options;
  trm_engine_options_default(&options);
  trm_report_source source = {.executable = executable,
                              .program = program,
                              .options = &options,
                              .framework = "",
                              .framework_version = "",
                              .is_model = is_model(executable)};
  const time_t now = time(NULL);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(source.timestamp, sizeof source.timestamp, "%Y-%m-%dT%H:%M:%S", &parts);
  TRY(trm_lowered_create(program, &source.lowered, error));
  sqlite3 *database = NULL;
  const trm_status status = trm_report_write_profile(&source, path, true, &database, error);
  sqlite3_close(database);
  trm_lowered_free(&source.lowered);
  return status;
}

static trm_status print(const trm_executable *executable, const trm_program *program,
                        trm_report_part part, char **out_text, trm_error *error) {
  const char *parent = getenv("TMPDIR");
  char directory[512], path[544];
  snprintf(directory, sizeof directory, "%.480s/tremula-report-XXXXXX",
           parent != NULL && *parent != '\0' ? parent : "/tmp");
  if (mkdtemp(directory) == NULL) {
    FAIL(UNAVAILABLE, "cannot make the directory %s for a report: %s", directory, strerror(errno));
  }
  snprintf(path, sizeof path, "%s/profile.pop", directory);
  trm_profile profile;
  trm_status status = write_profile(executable, program, path, error);
  if (status == TRM_OK) status = trm_profile_read(path, &profile, error);
  if (status == TRM_OK) {
    status = trm_profile_print_parts(&profile, false, part == TRM_REPORT_GRAPH,
                                     part == TRM_REPORT_EXECUTION, out_text, error);
    trm_profile_free(&profile);
  }
  unlink(path);
  rmdir(directory);
  return status;
}

trm_status trm_report_describe(const trm_executable *executable, const trm_program *program,
                               trm_report_part part, trm_report_form form, size_t most_bytes,
                               char **out_data, size_t *out_size, trm_error *error) {
  if (form == TRM_REPORT_AS_TEXT) {
    if (part != TRM_REPORT_GRAPH && part != TRM_REPORT_EXECUTION) {
      FAIL(INVALID_ARGUMENT, "part %d of a report is no text", (int)part);
    }
    char *text;
    TRY(print(executable, program, part, &text, error));
    const size_t size = strlen(text);
    if (most_bytes > 0 && size > most_bytes) {
      trm_free(text);
      FAIL(RESOURCE_EXHAUSTED, "a report would take more than %zu bytes", most_bytes);
    }
    *out_data = text;
    *out_size = size;
    return TRM_OK;
  }
  trm_stream stream = {.cbor = form == TRM_REPORT_AS_CBOR, .limit = most_bytes};
  const trm_status status = put_part(executable, program, part, &stream, "a report", error);
  if (status != TRM_OK) {
    trm_text_free(&stream.text);
    return status;
  }
  *out_data = stream.text.data;
  *out_size = stream.text.length;
  return TRM_OK;
}

trm_status trm_report_describe_file(const trm_executable *executable, const trm_program *program,
                                    trm_report_part part, const char *path, trm_error *error) {
  trm_new_file file;
  TRY(trm_new_file_open(path, &file, error));
  trm_stream stream = {.file = file.stream};
  const trm_status status = put_part(executable, program, part, &stream, path, error);
  trm_text_free(&stream.text);
  file.problem = stream.file_problem;
  const trm_status closed = trm_new_file_close(&file, path, status == TRM_OK, error);
  return status != TRM_OK ? status : closed;
}
