/* Owns: the tables of source lines that newer XLA writes behind the header of a module:
 *
 *     FileNames
 *     1 "model.py"
 *     FunctionNames
 *     1 "train"
 *     FileLocations
 *     1 {file_name_id=1 function_name_id=1 line=41 end_line=41 column=3 end_column=9}
 *     StackFrames
 *     1 {file_location_id=1 parent_frame_id=1}
 *
 * An instruction's metadata then says stack_frame_id=1 instead of source_file and source_line. */
#include <string.h>

#include "hlo/parse.h"

/* The values of two fields of `{name=3 other=4 ...}`; 0 where one is absent. */
static trm_status read_fields(trm_parser *parser, const char *first, int64_t *out_first,
                              const char *second, int64_t *out_second) {
  trm_lexer *lexer = &parser->lexer;
  *out_first = *out_second = 0;
  TRY(trm_lexer_expect(lexer, '{', "'{'"));
  while (lexer->kind != '}') {
    int64_t ignored;
    int64_t *value = trm_lexer_is(lexer, first)                      ? out_first
                     : second != NULL && trm_lexer_is(lexer, second) ? out_second
                                                                     : &ignored;
    TRY(trm_lexer_expect(lexer, TOKEN_IDENTIFIER, "a field"));
    TRY(trm_lexer_expect(lexer, '=', "'='"));
    TRY(trm_lexer_integer(lexer, value));
    trm_lexer_accept(lexer, ',');
  }
  trm_lexer_next(lexer);
  return TRM_OK;
}

static trm_status check_id(const trm_lexer *lexer, const char *where, int64_t id, size_t count) {
  if (id == (int64_t)count + 1) return TRM_OK;
  return trm_lexer_fail(lexer, where, "the entries of a table are numbered from 1 on");
}

trm_status trm_parse_frames(trm_parser *parser) {
  enum { FILES, FUNCTIONS, LOCATIONS, FRAMES, NUM_TABLES };
  static const char *const names[NUM_TABLES] = {"FileNames", "FunctionNames", "FileLocations",
                                                "StackFrames"};
  trm_lexer *lexer = &parser->lexer;
  trm_error *error = parser->error;
  for (int table = 0; table < NUM_TABLES; ++table) {
    if (!trm_lexer_is(lexer, names[table])) continue;
    const char next = trm_lexer_peek(lexer);
    if (next == '{' || next == '(') continue; /* a computation of that name */
    trm_lexer_next(lexer);
    size_t functions = 0;
    while (lexer->kind == TOKEN_NUMBER) {
      const char *where = lexer->token, *text;
      int64_t id;
      trm_source_location location = {0};
      bool pushed = true;
      TRY(trm_lexer_integer(lexer, &id));
      if (table == FILES || table == FUNCTIONS) {
        TRY(trm_lexer_string(lexer, &parser->module->arena, &text, NULL));
        TRY(check_id(lexer, where, id, table == FILES ? parser->files.count : functions++));
        if (table == FILES) pushed = VECTOR_PUSH(&parser->files, text);
      } else if (table == LOCATIONS) {
        TRY(read_fields(parser, "file_name_id", &location.file, "line", &location.line));
        TRY(check_id(lexer, where, id, parser->locations.count));
        pushed = VECTOR_PUSH(&parser->locations, location);
      } else {
        int64_t ignored;
        TRY(read_fields(parser, "file_location_id", &location.line, NULL, &ignored));
        TRY(check_id(lexer, where, id, parser->frames.count));
        pushed = VECTOR_PUSH(&parser->frames, location.line);
      }
      if (!pushed) FAIL_NO_MEMORY("a table of source lines");
    }
  }
  return TRM_OK;
}

void trm_parse_resolve_frame(const trm_parser *parser, int64_t frame, trm_metadata *metadata) {
  if (metadata->source_file != NULL || frame < 1 || (uint64_t)frame > parser->frames.count) return;
  const int64_t id = parser->frames.items[frame - 1];
  if (id < 1 || (uint64_t)id > parser->locations.count) return;
  const trm_source_location *location = &parser->locations.items[id - 1];
  if (location->file < 1 || (uint64_t)location->file > parser->files.count) return;
  metadata->source_file = parser->files.items[location->file - 1];
  if (location->line > 0 && location->line <= INT32_MAX) {
    metadata->source_line = (int32_t)location->line;
  }
}
