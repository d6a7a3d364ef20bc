/* Owns: OpSharding to and from the text that HLO uses: {replicated}, {maximal device=1},
 * {devices=[2,1]0,1}, {devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, {{...}, {...}}. Those
 * that name the axes of a mesh are read as {replicated}, {manual}, {unreduced}, {maximal device=1}
 * or {unknown}. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto.h"

typedef Tremula__Hlo__OpSharding sharding_proto;

enum { REPLICATED, MAXIMAL, TUPLE, OTHER, MANUAL, UNKNOWN, UNREDUCED };
enum { MAX_DEPTH = 100 };

static const char *const plain_names[] = {[REPLICATED] = "replicated",
                                          [MANUAL] = "manual",
                                          [UNKNOWN] = "unknown",
                                          [UNREDUCED] = "unreduced"};

static const char *plain_name(int32_t type) {
  return type < 0 || type > UNREDUCED ? NULL : plain_names[type];
}

static void print_list(trm_text *text, const char *open, const int64_t *items, size_t count,
                       const char *close) {
  trm_text_format(text, "%s", open);
  for (size_t i = 0; i < count; ++i) {
    trm_text_format(text, "%s%" PRId64, i == 0 ? "" : ",", items[i]);
  }
  trm_text_format(text, "%s", close);
}

static trm_status print_tiles(trm_text *text, const sharding_proto *proto, trm_error *error) {
  print_list(text, "devices=[", proto->tile_assignment_dimensions,
             proto->n_tile_assignment_dimensions, "]");
  if (proto->n_iota_reshape_dims > 0) {
    print_list(text, "<=[", proto->iota_reshape_dims, proto->n_iota_reshape_dims, "]");
    if (proto->n_iota_reshape_dims > 1) {
      trm_text_format(text, "T(");
      for (size_t i = 0; i < proto->n_iota_transpose_perm; ++i) {
        trm_text_format(text, "%s%" PRId32, i == 0 ? "" : ",", proto->iota_transpose_perm[i]);
      }
      trm_text_format(text, ")");
    }
  } else {
    print_list(text, "", proto->tile_assignment_devices, proto->n_tile_assignment_devices, "");
  }
  if (proto->replicate_on_last_tile_dim) trm_text_format(text, " last_tile_dim_replicate");
  if (proto->n_last_tile_dims > 0) {
    trm_text_format(text, " last_tile_dims={");
    for (size_t i = 0; i < proto->n_last_tile_dims; ++i) {
      const char *name = plain_name(proto->last_tile_dims[i]);
      if (name == NULL) FAIL(INVALID_ARGUMENT, "a sharding has a bad last_tile_dims");
      trm_text_format(text, "%s%s", i == 0 ? "" : ", ", name);
    }
    trm_text_format(text, "}");
  }
  return TRM_OK;
}

typedef Tremula__Hlo__NamedShardingProto named_proto;
typedef Tremula__Hlo__AxisRefProto axis_proto;

/* Whether `axes` are all axes of the mesh, uncut. */
static bool are_all(const named_proto *named, axis_proto *const *axes, size_t count) {
  if (count == 0 || count != named->mesh->n_axes) return false;
  for (size_t i = 0; i < count; ++i) {
    if (axes[i]->sub_axis_info != NULL) return false;
  }
  return true;
}

static int32_t type_of_named(const named_proto *named) {
  if (named->mesh == NULL) return UNKNOWN;
  if (named->mesh->n_axes == 0) {
    return named->mesh->n_device_ids == 1 ? MAXIMAL : REPLICATED;
  }
  if (are_all(named, named->manual_axes, named->n_manual_axes)) return MANUAL;
  if (are_all(named, named->unreduced_axes, named->n_unreduced_axes)) return UNREDUCED;
  bool is_cut = named->n_manual_axes + named->n_unreduced_axes > 0;
  for (size_t i = 0; i < named->n_dim_shardings && !is_cut; ++i) {
    is_cut = named->dim_shardings[i]->n_axes > 0;
  }
  return is_cut ? UNKNOWN : REPLICATED;
}

static trm_status print_one(trm_text *text, const sharding_proto *proto, trm_error *error) {
  const named_proto *named = proto->named_sharding;
  const int32_t type = named == NULL ? proto->type : type_of_named(named);
  const char *plain = plain_name(type);
  trm_text_format(text, "{");
  if (plain != NULL) {
    trm_text_format(text, "%s", plain);
  } else if (named != NULL) {
    trm_text_format(text, "maximal device=%" PRId64, named->mesh->device_ids[0]);
  } else if (type == MAXIMAL) {
    if (proto->n_tile_assignment_devices != 1) {
      FAIL(INVALID_ARGUMENT, "a maximal sharding must name one device, not %zu",
           proto->n_tile_assignment_devices);
    }
    trm_text_format(text, "maximal device=%" PRId64, proto->tile_assignment_devices[0]);
  } else if (type == OTHER) {
    TRY(print_tiles(text, proto, error));
  } else {
    FAIL(UNIMPLEMENTED, "sharding type %" PRId32 " is not known", proto->type);
  }
  trm_text_format(text, "}");
  return TRM_OK;
}

static trm_status print_nested(trm_text *text, const sharding_proto *proto, trm_error *error) {
  const sharding_proto *stack[MAX_DEPTH + 1];
  size_t next[MAX_DEPTH + 1];
  int depth = 0;
  stack[0] = proto, next[0] = 0;
  while (depth >= 0) {
    const sharding_proto *top = stack[depth];
    if (top->type != TUPLE) {
      TRY(print_one(text, top, error));
      --depth;
      continue;
    }
    if (next[depth] == 0) trm_text_format(text, "{");
    if (next[depth] < top->n_tuple_shardings && depth < MAX_DEPTH) {
      if (next[depth] > 0) trm_text_format(text, ", ");
      stack[depth + 1] = top->tuple_shardings[next[depth]++];
      next[++depth] = 0;
      continue;
    }
    trm_text_format(text, "}");
    --depth;
  }
  return TRM_OK;
}

trm_status trm_proto_sharding_text(trm_arena *arena, const sharding_proto *proto,
                                   const char **out_text, trm_error *error) {
  trm_text text = {0};
  const trm_status status = print_nested(&text, proto, error);
  const char *copy =
      status != TRM_OK || text.failed ? NULL : trm_arena_string(arena, text.data, text.length);
  trm_text_free(&text);
  if (status != TRM_OK) return status;
  CHECK_MEMORY(copy, "a sharding");
  *out_text = copy;
  return TRM_OK;
}

/* ---- Parsing -------------------------------------------------------------------------------- */

typedef struct parser {
  const char *text, *at;
  trm_arena *arena;
  trm_error *error;
} parser;

static trm_status bad(const parser *p, const char *expected) {
  return trm_fail(p->error, TRM_INVALID_ARGUMENT,
                  "cannot read the sharding \"%.200s\": expected %s at position %zu", p->text,
                  expected, (size_t)(p->at - p->text));
}

static bool accept(parser *p, const char *token) {
  while (*p->at == ' ') ++p->at;
  const size_t length = strlen(token);
  if (strncmp(p->at, token, length) != 0) return false;
  p->at += length;
  return true;
}

static bool parse_number(parser *p, int64_t *out_value) {
  while (*p->at == ' ') ++p->at;
  int64_t value = 0;
  const char *start = p->at;
  while (*p->at >= '0' && *p->at <= '9') {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *p->at - '0', &value)) {
      return false;
    }
    ++p->at;
  }
  *out_value = value;
  return p->at > start;
}

/* Numbers separated by commas; there may be none. */
static trm_status parse_list(parser *p, int64_t **out_items, size_t *out_count) {
  VECTOR(int64_t) numbers = {0};
  int64_t value = 0;
  bool more = *p->at >= '0' && *p->at <= '9', failed = false;
  while (more && !failed) {
    if (!parse_number(p, &value)) {
      VECTOR_FREE(&numbers);
      return bad(p, "a number");
    }
    failed = !VECTOR_PUSH(&numbers, value);
    more = *p->at == ',' && p->at++;
  }
  trm_error *error = p->error;
  *out_count = numbers.count;
  const size_t bytes = numbers.count * sizeof value;
  *out_items = failed ? NULL : trm_arena_copy(p->arena, numbers.items, bytes);
  VECTOR_FREE(&numbers);
  CHECK_MEMORY(*out_items, "a sharding");
  return TRM_OK;
}

static trm_status narrow(parser *p, const int64_t *items, size_t count, int32_t **out_items) {
  trm_error *error = p->error;
  *out_items = ARENA_NEW(p->arena, int32_t, count);
  CHECK_MEMORY(*out_items, "a sharding");
  for (size_t i = 0; i < count; ++i) {
    if (items[i] > INT32_MAX) return bad(p, "smaller numbers before it");
    (*out_items)[i] = (int32_t)items[i];
  }
  return TRM_OK;
}

static int32_t accept_plain(parser *p) {
  for (int32_t i = 0; i <= UNREDUCED; ++i) {
    if (plain_names[i] != NULL && accept(p, plain_names[i])) return i;
  }
  return -1;
}

static trm_status parse_tiles(parser *p, sharding_proto *proto) {
  int64_t *list = NULL;
  size_t count = 0;
  TRY(parse_list(p, &proto->tile_assignment_dimensions, &proto->n_tile_assignment_dimensions));
  if (!accept(p, "]")) return bad(p, "]");
  if (accept(p, "<=[")) {
    TRY(parse_list(p, &proto->iota_reshape_dims, &proto->n_iota_reshape_dims));
    if (!accept(p, "]")) return bad(p, "]");
    if (accept(p, "T(")) {
      TRY(parse_list(p, &list, &count));
      if (!accept(p, ")")) return bad(p, ")");
    } else if (proto->n_iota_reshape_dims == 1) {
      static int64_t zero = 0;
      list = &zero, count = 1;
    }
    TRY(narrow(p, list, count, &proto->iota_transpose_perm));
    proto->n_iota_transpose_perm = count;
  } else {
    TRY(parse_list(p, &proto->tile_assignment_devices, &proto->n_tile_assignment_devices));
  }
  if (accept(p, "last_tile_dim_replicate")) proto->replicate_on_last_tile_dim = true;
  if (accept(p, "last_tile_dims={")) {
    trm_error *error = p->error;
    proto->last_tile_dims = ARENA_NEW(p->arena, int32_t, TRM_MAX_RANK);
    CHECK_MEMORY(proto->last_tile_dims, "a sharding");
    do {
      const int32_t type = accept_plain(p);
      if (type < 0 || proto->n_last_tile_dims == TRM_MAX_RANK) return bad(p, "a kind of subgroup");
      proto->last_tile_dims[proto->n_last_tile_dims++] = type;
    } while (accept(p, ","));
    if (!accept(p, "}")) return bad(p, "}");
  }
  return TRM_OK;
}

/* Behind the opening bracket of a group, to behind the one that closes it. */
static bool skip_group(parser *p, char open, char close) {
  int64_t depth = 1;
  for (; *p->at != '\0' && depth > 0; ++p->at) {
    const char quote = *p->at;
    if (quote == '"' || quote == '\'') {
      for (++p->at; *p->at != '\0' && *p->at != quote; ++p->at) {
        if (p->at[0] == '\\' && p->at[1] != '\0') ++p->at;
      }
      if (*p->at == '\0') return false;
    } else if (*p->at == open || *p->at == close) {
      depth += *p->at == open ? 1 : -1;
    }
  }
  return depth == 0;
}

/* Skips notes for partitioners: the origin of a sharding, and groups of equal shardings. */
static trm_status skip_notes(parser *p) {
  int64_t group;
  for (;;) {
    if (accept(p, "metadata={")) {
      if (!skip_group(p, '{', '}')) return bad(p, "the end of metadata");
    } else if (accept(p, "shard_as") || accept(p, "shard_like")) {
      if (!parse_number(p, &group)) return bad(p, "a number");
    } else {
      return TRM_OK;
    }
  }
}

static trm_status set_maximal(parser *p, sharding_proto *proto) {
  trm_error *error = p->error;
  int64_t *values = ARENA_NEW(p->arena, int64_t, 2);
  CHECK_MEMORY(values, "a sharding");
  if (!parse_number(p, &values[0])) return bad(p, "device=NUMBER");
  values[1] = 1;
  proto->type = MAXIMAL;
  proto->tile_assignment_devices = &values[0];
  proto->tile_assignment_dimensions = &values[1];
  proto->n_tile_assignment_devices = proto->n_tile_assignment_dimensions = 1;
  return TRM_OK;
}

/* `mesh[a=2,b=4], device_ids=(...), [{a}, {}], manual={b}`, behind the `[`. How axes of a mesh cut
 * an array is a note for partitioners, which makes it `unknown`; a single word counts. */
static trm_status parse_mesh(parser *p, sharding_proto *proto) {
  if (!skip_group(p, '[', ']')) return bad(p, "the end of the mesh");
  proto->type = UNKNOWN;
  while (accept(p, ",")) {
    const int32_t plain = accept_plain(p);
    bool good = true;
    if (accept(p, "device_ids=(")) {
      good = skip_group(p, '(', ')');
    } else if (plain >= 0 && !accept(p, "={")) {
      proto->type = plain;
    } else if (plain >= 0 || accept(p, "metadata={")) {
      good = skip_group(p, '{', '}');
    } else {
      good = accept(p, "[") && skip_group(p, '[', ']');
    }
    if (!good) return bad(p, "what the mesh's axes cut");
  }
  return TRM_OK;
}

/* After the opening brace of something that is not a tuple, up to the closing one. */
static trm_status parse_one(parser *p, sharding_proto *proto) {
  const int32_t plain = accept_plain(p);
  if (plain >= 0) {
    proto->type = plain;
  } else if (accept(p, "maximal_mesh[device_id=")) {
    TRY(set_maximal(p, proto));
    if (!accept(p, "]")) return bad(p, "]");
  } else if (accept(p, "maximal")) {
    if (!accept(p, "device=")) return bad(p, "device=NUMBER");
    TRY(set_maximal(p, proto));
  } else if (accept(p, "mesh[")) {
    TRY(parse_mesh(p, proto));
  } else if (accept(p, "devices=[")) {
    proto->type = OTHER;
    TRY(parse_tiles(p, proto));
  } else {
    return bad(p, "replicated, manual, unknown, maximal, devices or mesh");
  }
  TRY(skip_notes(p));
  return accept(p, "}") ? TRM_OK : bad(p, "}");
}

static trm_status new_proto(parser *p, sharding_proto **out_proto) {
  trm_error *error = p->error;
  *out_proto = ARENA_NEW(p->arena, sharding_proto, 1);
  CHECK_MEMORY(*out_proto, "a sharding");
  tremula__hlo__op_sharding__init(*out_proto);
  return TRM_OK;
}

static trm_status append(parser *p, sharding_proto *tuple, sharding_proto *element) {
  trm_error *error = p->error;
  const size_t count = tuple->n_tuple_shardings;
  if ((count & (count - 1)) == 0) { /* room is a power of two */
    sharding_proto **grown = ARENA_NEW(p->arena, sharding_proto *, count == 0 ? 1 : count * 2);
    CHECK_MEMORY(grown, "a sharding");
    if (count > 0) memcpy(grown, tuple->tuple_shardings, count * sizeof *grown);
    tuple->tuple_shardings = grown;
  }
  tuple->tuple_shardings[tuple->n_tuple_shardings++] = element;
  return TRM_OK;
}

trm_status trm_proto_sharding_parse(trm_arena *arena, const char *text, sharding_proto **out_proto,
                                    trm_error *error) {
  parser state = {text, text, arena, error};
  parser *p = &state;
  sharding_proto *stack[MAX_DEPTH];
  sharding_proto *done = NULL;
  int depth = 0;
  if (!accept(p, "{")) return bad(p, "{");
  do {
    /* Here an opening brace has just been read. */
    sharding_proto *proto;
    TRY(new_proto(p, &proto));
    const bool opens = accept(p, "{");
    if (opens || accept(p, "}")) {
      proto->type = TUPLE;
      if (opens) {
        if (depth == MAX_DEPTH) return bad(p, "fewer levels");
        stack[depth++] = proto;
        continue;
      }
    } else {
      TRY(parse_one(p, proto));
    }
    done = proto;
    while (depth > 0) {
      TRY(append(p, stack[depth - 1], done));
      done = NULL;
      if (accept(p, ",")) {
        if (!accept(p, "{")) return bad(p, "{");
        break;
      }
      if (!accept(p, "}")) return bad(p, ", or }");
      done = stack[--depth];
    }
  } while (done == NULL);
  if (accept(p, "") && *p->at != '\0') return bad(p, "the end");
  *out_proto = done;
  return TRM_OK;
}
