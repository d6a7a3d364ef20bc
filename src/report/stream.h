/* A document of objects, arrays, texts and numbers, written as it comes: as JSON or as CBOR
 * (RFC 8949, marked as such by the tag 55799), into memory or into a file. */
#ifndef TREMULA_REPORT_STREAM_H_
#define TREMULA_REPORT_STREAM_H_

#include <stdio.h>

#include "base/memory.h"

/* Set `cbor`, `file` (NULL: into `text`) and `limit` (bytes; 0: none), begin with zeros elsewhere.
 * What comes after a failure is dropped. */
typedef struct trm_stream {
  bool cbor;
  FILE *file;
  size_t limit;
  trm_text text;  /* all of it, or what the file has not got yet */
  size_t written; /* bytes, of both */
  bool wants_comma;
  bool is_too_long; /* more than the limit */
  int file_problem; /* errno of the file; 0: none */
} trm_stream;

/* The document's first byte. */
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
/* The rest of the file. Fails when something has gone wrong before: RESOURCE_EXHAUSTED when memory
 * has run out or the document is too long, UNAVAILABLE when the file could not be written. Memory
 * is still the stream's: trm_text_free(&stream->text). */
trm_status trm_stream_close(trm_stream *stream, const char *what, trm_error *error);

/* An object's pairs. */
static inline void trm_stream_put_int(trm_stream *stream, const char *key, int64_t value) {
  trm_stream_key(stream, key);
  trm_stream_int(stream, value);
}
static inline void trm_stream_put_string(trm_stream *stream, const char *key, const char *text) {
  trm_stream_key(stream, key);
  trm_stream_string(stream, text);
}

#endif /* TREMULA_REPORT_STREAM_H_ */
