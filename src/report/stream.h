/* Writing a document of objects, arrays, texts and numbers piece by piece, as JSON or as CBOR (RFC
 * 8949, with the tag 55799), into memory or into a file. */
#ifndef TREMULA_REPORT_STREAM_H_
#define TREMULA_REPORT_STREAM_H_

#include <stdio.h>

#include "base/memory.h"

/* The caller sets `cbor`, `file` (NULL: into `text`) and `limit` (bytes; 0: none), and zeros the
 * rest. After a failure all calls do nothing until trm_stream_close. */
typedef struct trm_stream {
  bool cbor;
  FILE *file;
  size_t limit;
  trm_text text;  /* the document, or the part that is not in the file yet */
  size_t written; /* bytes, in `text` and the file */
  bool wants_comma;
  bool is_too_long; /* more than the limit */
  int file_problem; /* errno of the file; 0: none */
} trm_stream;

/* Begins the document. */
void trm_stream_open(trm_stream *stream);
void trm_stream_object(trm_stream *stream);
void trm_stream_end_object(trm_stream *stream);
void trm_stream_array(trm_stream *stream);
void trm_stream_end_array(trm_stream *stream);
void trm_stream_key(trm_stream *stream, const char *key);
/* Text that is not UTF-8 becomes "?"; NULL becomes "". */
void trm_stream_string(trm_stream *stream, const char *text);
void trm_stream_int(trm_stream *stream, int64_t value);
void trm_stream_real(trm_stream *stream, double value);
void trm_stream_bool(trm_stream *stream, bool value);
/* Writes the rest to the file, and reports the first failure: RESOURCE_EXHAUSTED without memory or
 * beyond the limit, UNAVAILABLE where the file could not be written. `what` names the document in
 * messages. The caller frees the memory with trm_text_free(&stream->text). */
trm_status trm_stream_close(trm_stream *stream, const char *what, trm_error *error);

/* A pair of an object: key and value. */
static inline void trm_stream_put_int(trm_stream *stream, const char *key, int64_t value) {
  trm_stream_key(stream, key);
  trm_stream_int(stream, value);
}
static inline void trm_stream_put_string(trm_stream *stream, const char *key, const char *text) {
  trm_stream_key(stream, key);
  trm_stream_string(stream, text);
}

#endif /* TREMULA_REPORT_STREAM_H_ */
