/* Owns: replica groups in HLO text: lists, iotas and axes of a mesh. */
#include <string.h>

#include "hlo/groups.h"
#include "hlo/parse.h"

/* `[4,2]T(1,0)`: the numbers 0, 1, ... in the shape [4,2], transposed. */
static trm_status read_iota(trm_parser *parser, trm_dims *out_numbers) {
  trm_lexer *lexer = &parser->lexer;
  const char *where = lexer->token;
  trm_dims shape, order = {0};
  TRY(trm_parse_numbers(parser, '[', ']', &shape));
  if (trm_lexer_is(lexer, "T")) {
    trm_lexer_next(lexer);
    TRY(trm_parse_numbers(parser, '(', ')', &order));
    if (order.count != shape.count) {
      return trm_lexer_fail(lexer, where, "T(...) has %d dimensions of %d", order.count,
                            shape.count);
    }
  }
  trm_error reason;
  if (trm_iota_numbers(&parser->module->arena, shape.items, order.items, shape.count, out_numbers,
                       &reason) != TRM_OK) {
    return trm_lexer_fail(lexer, where, "%s", reason.message);
  }
  return TRM_OK;
}

/* `[2,4]<=[4,2]T(1,0)`: the numbers of an iota, cut into groups. */
static trm_status read_iota_groups(trm_parser *parser, trm_replica_groups *out) {
  trm_lexer *lexer = &parser->lexer;
  const char *where = lexer->token;
  trm_dims shape, numbers;
  trm_error reason;
  TRY(trm_parse_numbers(parser, '[', ']', &shape));
  TRY(trm_lexer_expect(lexer, '<', "'<='"));
  TRY(trm_lexer_expect(lexer, '=', "'<='"));
  TRY(read_iota(parser, &numbers));
  if (shape.count != 2) {
    return trm_lexer_fail(lexer, where,
                          "expected replica groups such as [2,4]<=[8] or [2,4]<=[4,2]T(1,0)");
  }
  if (trm_groups_cut(&parser->module->arena, numbers, shape.items[0], shape.items[1], out,
                     &reason) != TRM_OK) {
    return trm_lexer_fail(lexer, where, "%s", reason.message);
  }
  return TRM_OK;
}

typedef struct mesh {
  int32_t rank, num_axes;
  int64_t sizes[TRM_MAX_RANK];
  const char *names[TRM_MAX_RANK];
  trm_mesh_axis axes[TRM_MAX_RANK];
} mesh;

/* `a`, or `'a'` as older versions of XLA print. */
static trm_status read_axis_name(trm_parser *parser, const char **out_name) {
  trm_lexer *lexer = &parser->lexer;
  trm_arena *arena = &parser->module->arena;
  if (lexer->kind != TOKEN_IDENTIFIER) return trm_lexer_string(lexer, arena, out_name, NULL);
  trm_error *error = parser->error;
  *out_name = trm_arena_string(arena, lexer->token, lexer->length);
  CHECK_MEMORY(*out_name, "an axis");
  trm_lexer_next(lexer);
  return TRM_OK;
}

/* `[a=2,b=4]` */
static trm_status read_mesh_axes(trm_parser *parser, mesh *m) {
  trm_lexer *lexer = &parser->lexer;
  TRY(trm_lexer_expect(lexer, '[', "'[' and the axes of a mesh"));
  do {
    if (m->rank == TRM_MAX_RANK) {
      return trm_lexer_fail(lexer, lexer->token, "a mesh of more than %d axes", TRM_MAX_RANK);
    }
    TRY(read_axis_name(parser, &m->names[m->rank]));
    TRY(trm_lexer_expect(lexer, '=', "'=' and an axis's size"));
    TRY(trm_lexer_integer(lexer, &m->sizes[m->rank++]));
  } while (trm_lexer_accept(lexer, ','));
  return trm_lexer_expect(lexer, ']', "']'");
}

/* `{a, b:(2)4}`: the axes of a group; of b the part of size 4 behind one of size 2. */
static trm_status read_group_axes(trm_parser *parser, mesh *m) {
  trm_lexer *lexer = &parser->lexer;
  TRY(trm_lexer_expect(lexer, '{', "'{' and the axes of a group"));
  while (lexer->kind != '}') {
    const char *name, *where = lexer->token;
    if (m->num_axes == TRM_MAX_RANK) {
      return trm_lexer_fail(lexer, where, "a group over more than %d axes", TRM_MAX_RANK);
    }
    trm_mesh_axis *axis = &m->axes[m->num_axes++];
    TRY(read_axis_name(parser, &name));
    while (axis->axis < m->rank && strcmp(m->names[axis->axis], name) != 0) ++axis->axis;
    if (axis->axis == m->rank) {
      return trm_lexer_fail(lexer, where, "the mesh has no axis '%.100s'", name);
    }
    if (trm_lexer_accept(lexer, ':')) {
      TRY(trm_lexer_expect(lexer, '(', "'(' and the size before a part of an axis"));
      TRY(trm_lexer_integer(lexer, &axis->pre_size));
      TRY(trm_lexer_expect(lexer, ')', "')'"));
      TRY(trm_lexer_integer(lexer, &axis->size));
      if (axis->pre_size < 1 || axis->size < 1) {
        return trm_lexer_fail(lexer, where, "a part of an axis is smaller than 1");
      }
    }
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  return trm_lexer_expect(lexer, '}', "'}'");
}

/* `mesh[a=2,b=4], device_ids=([4,2]T(1,0)) {a}` */
static trm_status read_mesh_groups(trm_parser *parser, trm_replica_groups *out) {
  trm_lexer *lexer = &parser->lexer;
  const char *where = lexer->token;
  mesh m = {0};
  trm_dims devices;
  trm_error reason;
  bool has_devices = false;
  trm_lexer_next(lexer);
  TRY(read_mesh_axes(parser, &m));
  if (trm_lexer_accept(lexer, ',')) {
    if (!trm_lexer_is(lexer, "device_ids")) return trm_lexer_unexpected(lexer, "device_ids");
    trm_lexer_next(lexer);
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    has_devices = true;
    if (trm_lexer_peek(lexer) == '[') {
      TRY(trm_lexer_expect(lexer, '(', "'('"));
      TRY(read_iota(parser, &devices));
      TRY(trm_lexer_expect(lexer, ')', "')'"));
    } else {
      TRY(trm_parse_numbers(parser, '(', ')', &devices));
    }
  }
  TRY(read_group_axes(parser, &m));
  if (trm_groups_of_mesh(&parser->module->arena, m.sizes, m.rank, has_devices ? &devices : NULL,
                         m.axes, m.num_axes, out, &reason) != TRM_OK) {
    return trm_lexer_fail(lexer, where, "%s", reason.message);
  }
  return TRM_OK;
}

/* `{{0,1},{2,3}}` */
trm_status trm_parse_groups(trm_parser *parser, trm_replica_groups *out) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  if (lexer->kind == '[') return read_iota_groups(parser, out);
  if (trm_lexer_is(lexer, "mesh")) return read_mesh_groups(parser, out);
  VECTOR(trm_dims) groups = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(trm_lexer_expect(lexer, '{', "'{', an iota such as [2,4]<=[8] or a mesh"), done);
  if (lexer->kind != '}') {
    do {
      trm_dims group;
      TRY_OR_GOTO(trm_parse_dims(parser, &group), done);
      if (groups.count == TRM_MAX_REPLICAS || !VECTOR_PUSH(&groups, group)) {
        FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "too many replica groups");
      }
    } while (trm_lexer_accept(lexer, ','));
  }
  TRY_OR_GOTO(trm_lexer_expect(lexer, '}', "'}'"), done);
  out->count = (int32_t)groups.count;
  out->groups =
      trm_arena_copy(&parser->module->arena, groups.items, groups.count * sizeof *groups.items);
  if (out->groups == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
done:
  VECTOR_FREE(&groups);
  return status;
}
