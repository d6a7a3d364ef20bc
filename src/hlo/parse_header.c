/* Owns: the first line of HLO text: the module's name and attributes. */
#include <string.h>

#include "hlo/parse.h"

/* `{ {0}: (2, {}, may-alias), {1,0}: (3, {1}) }` */
static trm_status parse_aliases(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  trm_module *module = parser->module;
  VECTOR(trm_alias) aliases = {0};
  trm_status status = TRM_OK;
  TRY_OR_GOTO(trm_lexer_expect(lexer, '{', "'{'"), done);
  while (lexer->kind != '}') {
    trm_alias alias = {0};
    TRY_OR_GOTO(trm_parse_dims(parser, &alias.output_index), done);
    TRY_OR_GOTO(trm_lexer_expect(lexer, ':', "':'"), done);
    if (lexer->kind == TOKEN_NUMBER) {
      TRY_OR_GOTO(trm_lexer_integer(lexer, &alias.parameter_number), done);
    } else {
      TRY_OR_GOTO(trm_lexer_expect(lexer, '(', "'(' and a parameter's number"), done);
      TRY_OR_GOTO(trm_lexer_integer(lexer, &alias.parameter_number), done);
      TRY_OR_GOTO(trm_lexer_expect(lexer, ',', "','"), done);
      TRY_OR_GOTO(trm_parse_dims(parser, &alias.parameter_index), done);
      if (trm_lexer_accept(lexer, ',')) {
        alias.must_alias = trm_lexer_is(lexer, "must-alias");
        if (!alias.must_alias && !trm_lexer_is(lexer, "may-alias")) {
          status = trm_lexer_unexpected(lexer, "may-alias or must-alias");
          goto done;
        }
        trm_lexer_next(lexer);
      }
      TRY_OR_GOTO(trm_lexer_expect(lexer, ')', "')'"), done);
    }
    if (!VECTOR_PUSH(&aliases, alias)) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  TRY_OR_GOTO(trm_lexer_expect(lexer, '}', "'}'"), done);
  module->num_aliases = (uint32_t)aliases.count;
  module->aliases =
      trm_arena_copy(&module->arena, aliases.items, aliases.count * sizeof *aliases.items);
  if (module->aliases == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory");
done:
  VECTOR_FREE(&aliases);
  return status;
}

/* `{ (0, {}), (1, {0}) }`: parameters whose memory a result may take. Read over: we decide that. */
static trm_status parse_donors(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    int64_t number;
    trm_dims index;
    TRY(trm_lexer_expect(lexer, '(', "'(' and a parameter's number"));
    TRY(trm_lexer_integer(lexer, &number));
    TRY(trm_lexer_expect(lexer, ',', "','"));
    TRY(trm_parse_dims(parser, &index));
    TRY(trm_lexer_expect(lexer, ')', "')'"));
    if (!trm_lexer_accept(lexer, ',')) break;
  }
  return trm_lexer_expect(lexer, '}', "'}'");
}

/* The layouts follow from the parameters; partitioning and fingerprints are another program's. */
static const char *const ignored_header[] = {"entry_computation_layout",
                                             "num_partitions",
                                             "allow_spmd_sharding_propagation_to_parameters",
                                             "allow_spmd_sharding_propagation_to_output",
                                             "alias_passthrough_params",
                                             "spmd_output_sharding",
                                             "spmd_parameters_shardings",
                                             "use_auto_spmd_partitioning",
                                             "fdo_profile",
                                             "fingerprint",
                                             "execution_thread",
                                             "origin",
                                             "origin_recovery_table",
                                             "backend_config",
                                             "debug_attributes"};

static trm_status parse_replicas(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  const char *at = lexer->token;
  int64_t count;
  TRY(trm_lexer_integer(lexer, &count));
  if (count < 1 || count > INT32_MAX) {
    return trm_lexer_fail(lexer, at, "replica_count must be from 1 to %d", INT32_MAX);
  }
  parser->module->replica_count = (uint32_t)count;
  return TRM_OK;
}

static trm_status parse_header_attribute(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  if (lexer->kind != TOKEN_IDENTIFIER) {
    return trm_lexer_unexpected(lexer, "an attribute of the module");
  }
  bool known = false;
  const char *name = lexer->token;
  const size_t length = lexer->length;
  const bool aliases = trm_lexer_is(lexer, "input_output_alias");
  const bool scheduled = trm_lexer_is(lexer, "is_scheduled");
  const bool frontend = trm_lexer_is(lexer, "frontend_attributes");
  const bool donors = trm_lexer_is(lexer, "buffer_donor");
  const bool replicas = trm_lexer_is(lexer, "replica_count");
  for (size_t i = 0; i < sizeof ignored_header / sizeof *ignored_header && !known; ++i) {
    known = trm_lexer_is(lexer, ignored_header[i]);
  }
  if (!known && !aliases && !scheduled && !frontend && !donors && !replicas) {
    return trm_lexer_fail(lexer, name, "a module has no attribute '%.*s' that Tremula knows",
                          SLICE_ARGS(name, length));
  }
  trm_lexer_next(lexer);
  TRY(trm_lexer_expect(lexer, '=', "'='"));
  if (aliases) return parse_aliases(parser);
  if (donors) return parse_donors(parser);
  if (replicas) return parse_replicas(parser);
  if (scheduled) return trm_lexer_boolean(lexer, &parser->module->is_scheduled);
  if (!frontend) return trm_lexer_skip_value(lexer);
  const char *const *list;
  TRY(trm_parse_frontend_attributes(parser, &list));
  for (; list != NULL && *list != NULL; list += 2) {
    if (strcmp(list[0], "tremula_side_table") == 0) parser->module->frontend_side_table = list[1];
  }
  return TRM_OK;
}

trm_status trm_parse_header(trm_parser *parser) {
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  const char *name;
  size_t length;
  trm_lexer_next(lexer);
  if (lexer->kind == TOKEN_STRING) {
    TRY(trm_lexer_string(lexer, &parser->module->arena, &name, NULL));
    length = strlen(name);
  } else {
    TRY(trm_parse_name(parser, "the module's name", &name, &length));
  }
  parser->module->name = trm_arena_string(&parser->module->arena, name, length);
  CHECK_MEMORY(parser->module->name, "a name");
  trm_lexer_accept(lexer, ':');
  while (trm_lexer_accept(lexer, ',')) TRY(parse_header_attribute(parser));
  return trm_parse_frames(parser);
}
