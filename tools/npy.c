/* Owns: NumPy's .npy files: "\x93NUMPY", a version, and a Python dictionary that describes the
 * bytes after it (numpy.org/neps/nep-0001-npy-format.html). */
#include "npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "tremula/inspect.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
static const size_t max_file_bytes = (size_t)1 << 38;

/* ---- Types ---------------------------------------------------------------------------------- */

static const struct type_row {
  char kind;
  int size;
  trm_dtype dtype;
} types[] = {
    {'f', 4, TRM_F32},    {'f', 2, TRM_F16},      {'f', 8, TRM_F64},  {'b', 1, TRM_PRED},
    {'i', 1, TRM_S8},     {'i', 2, TRM_S16},      {'i', 4, TRM_S32},  {'i', 8, TRM_S64},
    {'u', 1, TRM_U8},     {'u', 2, TRM_U16},      {'u', 4, TRM_U32},  {'u', 8, TRM_U64},
    {'c', 8, TRM_C64},    {'c', 16, TRM_C128},    {'V', 2, TRM_BF16}, /* as ml_dtypes writes it */
    {'f', 1, TRM_F8E5M2}, {'V', 1, TRM_F8E4M3FN}, /* and all other one-byte types of ml_dtypes */
};
enum { NUM_TYPES = sizeof types / sizeof *types };

bool npy_is_byte_of_ml_dtypes(trm_dtype dtype) {
  return dtype >= TRM_F8E5M2 && trm_dtype_size(dtype) == 1;
}

static trm_status parse_type(const char *descr, const char *name, trm_dtype *out_dtype,
                             trm_error *error) {
  const char order = descr[0];
  char *end = NULL;
  const long size = order != '\0' && descr[1] != '\0' ? strtol(descr + 2, &end, 10) : 0;
  if (end != NULL && *end == '\0' && end > descr + 2 && strchr("<>|=", order) != NULL) {
    for (size_t i = 0; i < NUM_TYPES; ++i) {
      if (types[i].kind != descr[1] || types[i].size != size) continue;
      if (order == '>' && size > 1) {
        return fail(error, TRM_UNIMPLEMENTED,
                    "%s holds big-endian numbers (%s); save it with "
                    "array.astype(array.dtype.newbyteorder('<'))",
                    name, descr);
      }
      *out_dtype = types[i].dtype;
      return TRM_OK;
    }
  }
  return fail(error, TRM_UNIMPLEMENTED,
              "%s holds elements of the NumPy type '%s'; supported are f2, f4, f8, i1 to i8, u1 to "
              "u8, b1, c8, c16, and V1 and V2 of the package ml_dtypes",
              name, descr);
}

/* ---- The header ----------------------------------------------------------------------------- */

/* A reader of the Python literals that headers contain. */
typedef struct header_reader {
  const char *at, *end;
} header_reader;

static void skip_space(header_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) ++r->at;
}

static bool take(header_reader *r, char c) {
  skip_space(r);
  if (r->at >= r->end || *r->at != c) return false;
  ++r->at;
  return true;
}

static bool take_string(header_reader *r, char *buffer, size_t size) {
  skip_space(r);
  if (r->at >= r->end || (*r->at != '\'' && *r->at != '"')) return false;
  const char quote = *r->at++;
  size_t length = 0;
  while (r->at < r->end && *r->at != quote) {
    if (*r->at < ' ' || *r->at > '~' || *r->at == '\\' || length + 1 >= size) return false;
    buffer[length++] = *r->at++;
  }
  buffer[length] = '\0';
  return take(r, quote);
}

static bool take_word(header_reader *r, const char *word) {
  skip_space(r);
  const size_t length = strlen(word);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

static bool take_dimension(header_reader *r, int64_t *out_size) {
  skip_space(r);
  int64_t size = 0;
  const char *first = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
    if (__builtin_mul_overflow(size, (int64_t)10, &size) ||
        __builtin_add_overflow(size, (int64_t)(*r->at - '0'), &size)) {
      return false;
    }
    ++r->at;
  }
  const bool any = r->at > first;
  if (any && r->at < r->end && *r->at == 'L') ++r->at; /* Python 2's long */
  *out_size = size;
  return any;
}

typedef struct header {
  char descr[64];
  bool has_descr, has_order, has_shape, fortran_order;
  int32_t rank;
  int64_t dims[NPY_MAX_RANK];
} header;

static bool take_shape(header_reader *r, header *h) {
  if (!take(r, '(')) return false;
  h->rank = 0;
  while (!take(r, ')')) {
    if (h->rank == NPY_MAX_RANK || !take_dimension(r, &h->dims[h->rank++])) return false;
    if (!take(r, ',')) return take(r, ')');
  }
  return true;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
static bool take_header(header_reader *r, header *h) {
  if (!take(r, '{')) return false;
  while (!take(r, '}')) {
    char key[32];
    if (!take_string(r, key, sizeof key) || !take(r, ':')) return false;
    if (strcmp(key, "descr") == 0) {
      if (!take_string(r, h->descr, sizeof h->descr)) return false;
      h->has_descr = true;
    } else if (strcmp(key, "fortran_order") == 0) {
      h->fortran_order = take_word(r, "True");
      if (!h->fortran_order && !take_word(r, "False")) return false;
      h->has_order = true;
    } else if (strcmp(key, "shape") == 0) {
      if (!take_shape(r, h)) return false;
      h->has_shape = true;
    } else {
      return false;
    }
    if (!take(r, ',')) {
      if (!take(r, '}')) return false;
      break;
    }
  }
  return h->has_descr && h->has_order && h->has_shape;
}

/* ---- Reading -------------------------------------------------------------------------------- */

trm_status npy_allocate(npy_array *array, const char *name, trm_error *error) {
  size_t bytes = trm_dtype_size(array->dtype);
  bool fits = bytes > 0;
  for (int32_t d = 0; d < array->rank; ++d) {
    if (array->dims[d] == 0) bytes = 0;
  }
  for (int32_t d = 0; d < array->rank && fits && bytes > 0; ++d) {
    fits = !__builtin_mul_overflow(bytes, (size_t)array->dims[d], &bytes);
  }
  void *data = fits && bytes <= max_file_bytes ? aligned_alloc(64, bytes / 64 * 64 + 64) : NULL;
  if (data == NULL) {
    char text[TYPE_TEXT_SIZE];
    return fail(error, TRM_RESOURCE_EXHAUSTED, "%s: there is no memory for %s", name,
                type_text(array->dtype, array->rank, array->dims, text, sizeof text));
  }
  memset(data, 0, bytes);
  array->bytes = bytes;
  array->data = data;
  return TRM_OK;
}

void npy_free(npy_array *array) {
  free(array->data);
  array->data = NULL;
}

/* Copies from first-dimension-fastest to last-dimension-fastest order, by counting up the
 * destination's index. */
static void transpose(const char *from, npy_array *to) {
  const size_t size = trm_dtype_size(to->dtype);
  size_t strides[NPY_MAX_RANK] = {0}, stride = size, at = 0;
  int64_t index[NPY_MAX_RANK] = {0};
  for (int32_t d = 0; d < to->rank; ++d) {
    strides[d] = stride;
    stride *= (size_t)to->dims[d];
  }
  for (size_t done = 0; done < to->bytes; done += size) {
    memcpy((char *)to->data + done, from + at, size);
    for (int32_t d = to->rank - 1; d >= 0; --d) {
      at += strides[d];
      if (++index[d] < to->dims[d]) break;
      at -= strides[d] * (size_t)to->dims[d];
      index[d] = 0;
    }
  }
}

/* Finds the header of a file of `size` bytes; the elements begin where it ends. */
static trm_status find_header(const unsigned char *bytes, size_t size, const char *name,
                              header_reader *out_reader, trm_error *error) {
  if (size < 10 || memcmp(bytes, magic, sizeof magic) != 0) {
    return fail(error, TRM_INVALID_ARGUMENT, "%s is not a .npy file (numpy.save writes them)",
                name);
  }
  const int version = bytes[6];
  if (version < 1 || version > 3 || bytes[7] != 0) {
    return fail(error, TRM_UNIMPLEMENTED,
                "%s is a .npy file of version %d.%d; 1.0 to 3.0 can be "
                "read",
                name, version, bytes[7]);
  }
  const size_t start = version == 1 ? 10 : 12;
  size_t length = bytes[8] | (size_t)bytes[9] << 8;
  if (version > 1 && size >= start) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
  if (size < start || size - start < length) {
    return fail(error, TRM_DATA_LOSS, "%s is cut short: its header is not all there", name);
  }
  *out_reader = (header_reader){(const char *)bytes + start, (const char *)bytes + start + length};
  return TRM_OK;
}

/* Compares the size with the header before anything is allocated. */
static trm_status check_size(const npy_array *array, size_t left, const char *name,
                             trm_error *error) {
  size_t stated = trm_dtype_size(array->dtype);
  for (int32_t d = 0; d < array->rank; ++d) {
    if (array->dims[d] == 0) stated = 0;
  }
  bool fits = true;
  for (int32_t d = 0; d < array->rank && fits && stated > 0; ++d) {
    fits = !__builtin_mul_overflow(stated, (size_t)array->dims[d], &stated);
  }
  if (fits && stated == left) return TRM_OK;
  char text[TYPE_TEXT_SIZE];
  return fail(error, TRM_DATA_LOSS,
              "%s is cut short or has bytes after its end: %zu bytes follow a header that states "
              "%s",
              name, left, type_text(array->dtype, array->rank, array->dims, text, sizeof text));
}

trm_status npy_parse(const void *data, size_t size, const char *name, npy_array *out_array,
                     trm_error *error) {
  header_reader r = {NULL, NULL};
  header h = {0};
  trm_status status = find_header(data, size, name, &r, error);
  if (status != TRM_OK) return status;
  const char *elements = r.end;
  const size_t left = size - (size_t)(elements - (const char *)data);
  if (!take_header(&r, &h)) {
    return fail(error, TRM_UNIMPLEMENTED,
                "%s has a header that is not understood (only plain arrays of at most %d "
                "dimensions can be read)",
                name, NPY_MAX_RANK);
  }
  npy_array array = {.rank = h.rank};
  memcpy(array.dims, h.dims, sizeof array.dims);
  status = parse_type(h.descr, name, &array.dtype, error);
  if (status == TRM_OK) status = check_size(&array, left, name, error);
  if (status == TRM_OK) status = npy_allocate(&array, name, error);
  if (status != TRM_OK) return status;
  if (h.fortran_order && array.rank > 1) {
    transpose(elements, &array);
  } else if (array.bytes > 0) {
    memcpy(array.data, elements, array.bytes);
  }
  if (array.dtype == TRM_PRED) { /* the engine expects 0 or 1 */
    unsigned char *flags = array.data;
    for (size_t i = 0; i < array.bytes; ++i) flags[i] = flags[i] != 0;
  }
  *out_array = array;
  return TRM_OK;
}

trm_status npy_read_file(const char *path, npy_array *out_array, trm_error *error) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return fail(error, TRM_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
  }
  char *data = NULL;
  size_t size = 0, capacity = 0;
  trm_status status = TRM_OK;
  /* The buffer grows, because pipes have no size. */
  for (;;) {
    if (size == capacity) {
      capacity = capacity == 0 ? (size_t)1 << 16 : 2 * capacity;
      char *grown = capacity <= 2 * max_file_bytes ? realloc(data, capacity) : NULL;
      if (grown == NULL) {
        status = fail(error, TRM_RESOURCE_EXHAUSTED, "%s is too large for memory", path);
        break;
      }
      data = grown;
    }
    const size_t got = fread(data + size, 1, capacity - size, file);
    if (got == 0) break;
    size += got;
  }
  if (status == TRM_OK && ferror(file)) {
    status = fail(error, TRM_UNAVAILABLE, "cannot read %s: %s", path, strerror(errno));
  }
  fclose(file);
  if (status == TRM_OK) status = npy_parse(data, size, path, out_array, error);
  free(data);
  return status;
}

/* ---- Writing -------------------------------------------------------------------------------- */

trm_status npy_write_file(const char *path, const npy_array *array, trm_error *error) {
  const struct type_row *type = NULL;
  for (size_t i = 0; i < NUM_TYPES; ++i) {
    if (types[i].dtype == array->dtype) type = &types[i];
  }
  if (npy_is_byte_of_ml_dtypes(array->dtype)) type = &types[NUM_TYPES - 1];
  if (type == NULL) {
    return fail(error, TRM_UNIMPLEMENTED, "a .npy file cannot hold %s, the type of %s",
                trm_dtype_name(array->dtype), path);
  }
  char text[1024];
  int length = snprintf(text, sizeof text, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                        type->size == 1 ? '|' : '<', type->kind, type->size);
  for (int32_t d = 0; d < array->rank; ++d) {
    length += snprintf(text + length, sizeof text - (size_t)length, "%lld,%s",
                       (long long)array->dims[d], d + 1 < array->rank ? " " : "");
  }
  length += snprintf(text + length, sizeof text - (size_t)length, "), }");
  /* Padded with spaces, so that the data begins at a multiple of 64. */
  while ((10 + length + 1) % 64 != 0) text[length++] = ' ';
  text[length++] = '\n';
  unsigned char head[sizeof magic + 4 + sizeof text] = {0};
  memcpy(head, magic, sizeof magic);
  head[sizeof magic] = 1; /* version 1.0 */
  head[sizeof magic + 2] = (unsigned char)(length & 255);
  head[sizeof magic + 3] = (unsigned char)(length >> 8);
  memcpy(head + sizeof magic + 4, text, (size_t)length);
  return trm_inspect_replace_file(path, head, sizeof magic + 4 + (size_t)length, array->data,
                                  array->bytes, error);
}
