/* Owns: writing JSON and CBOR piece by piece. */
#include "report/stream.h"

#include <cbor.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16, SELF_DESCRIBED = 55799 };

static void flush(trm_stream *s) {
  if (s->file == NULL || s->text.length == 0) return;
  if (fwrite(s->text.data, 1, s->text.length, s->file) != s->text.length) s->file_problem = errno;
  s->text.length = 0;
}

static void put(trm_stream *s, const void *data, size_t size) {
  if (s->is_too_long || s->file_problem != 0 || s->text.failed) return;
  if (s->limit > 0 && s->written + size > s->limit) {
    s->is_too_long = true;
    return;
  }
  trm_text_append(&s->text, data, size);
  s->written += size;
  if (s->text.length >= BLOCK) flush(s);
}

/* Writes the separator before a value: nothing, or JSON's comma. */
static void before(trm_stream *s) {
  if (!s->cbor && s->wants_comma) put(s, ",", 1);
  s->wants_comma = true;
}

static void begin(trm_stream *s, const char *json, unsigned char cbor) {
  before(s);
  if (s->cbor) put(s, &cbor, 1);
  else put(s, json, 1);
  s->wants_comma = false;
}

static void end(trm_stream *s, const char *json) {
  const unsigned char stop = 0xff;
  if (s->cbor) put(s, &stop, 1);
  else put(s, json, 1);
  s->wants_comma = true;
}

void trm_stream_open(trm_stream *s) {
  unsigned char buffer[9];
  if (s->cbor) put(s, buffer, cbor_encode_tag(SELF_DESCRIBED, buffer, sizeof buffer));
}

void trm_stream_object(trm_stream *s) { begin(s, "{", 0xbf); }
void trm_stream_end_object(trm_stream *s) { end(s, "}"); }
void trm_stream_array(trm_stream *s) { begin(s, "[", 0x9f); }
void trm_stream_end_array(trm_stream *s) { end(s, "]"); }

void trm_stream_key(trm_stream *s, const char *key) {
  trm_stream_string(s, key);
  if (!s->cbor) put(s, ":", 1);
  s->wants_comma = false;
}

void trm_stream_string(trm_stream *s, const char *text) {
  before(s);
  json_t *checked = json_string(text != NULL ? text : ""); /* NULL if not UTF-8 */
  if (s->cbor) {
    unsigned char buffer[9];
    const char *value = checked != NULL ? json_string_value(checked) : "?";
    put(s, buffer, cbor_encode_string_start(strlen(value), buffer, sizeof buffer));
    put(s, value, strlen(value));
  } else {
    char *quoted = checked != NULL ? json_dumps(checked, JSON_ENCODE_ANY) : NULL;
    put(s, quoted != NULL ? quoted : "\"?\"", quoted != NULL ? strlen(quoted) : 3);
    free(quoted);
  }
  json_decref(checked);
}

void trm_stream_int(trm_stream *s, int64_t value) {
  before(s);
  if (s->cbor) {
    unsigned char buffer[9];
    put(s, buffer,
        value >= 0 ? cbor_encode_uint((uint64_t)value, buffer, sizeof buffer)
                   : cbor_encode_negint(~(uint64_t)value, buffer, sizeof buffer));
  } else {
    char text[24];
    put(s, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
  }
}

void trm_stream_real(trm_stream *s, double value) {
  before(s);
  if (!isfinite(value)) value = 0;
  if (s->cbor) {
    unsigned char buffer[9];
    put(s, buffer, cbor_encode_double(value, buffer, sizeof buffer));
    return;
  }
  json_t *number = json_real(value);
  const size_t digits = fabs(value) < 1e12 ? 9 : 16; /* microseconds since 1970 need 16 */
  const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
  char *text = number != NULL ? json_dumps(number, flags) : NULL;
  put(s, text != NULL ? text : "0", text != NULL ? strlen(text) : 1);
  free(text);
  json_decref(number);
}

void trm_stream_bool(trm_stream *s, bool value) {
  before(s);
  const unsigned char byte = value ? 0xf5 : 0xf4;
  if (s->cbor) put(s, &byte, 1);
  else put(s, value ? "true" : "false", value ? 4 : 5);
}

trm_status trm_stream_close(trm_stream *s, const char *what, trm_error *error) {
  flush(s);
  if (s->file != NULL && fflush(s->file) != 0 && s->file_problem == 0) s->file_problem = errno;
  if (s->is_too_long) {
    FAIL(RESOURCE_EXHAUSTED, "%s would take more than %zu bytes", what, s->limit);
  }
  if (s->text.failed) FAIL_NO_MEMORY(what);
  if (s->file_problem != 0) {
    FAIL(UNAVAILABLE, "cannot write %s: %s", what, strerror(s->file_problem));
  }
  return TRM_OK;
}
