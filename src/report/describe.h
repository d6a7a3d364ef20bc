/* What the files that describe a program in one document share. */
#ifndef TREMULA_REPORT_DESCRIBE_H_
#define TREMULA_REPORT_DESCRIBE_H_

#include "program/program.h"
#include "report/stream.h"

/* graph.c: what was compiled; execution.c: a run of it; tensor_map.c: where every value lies;
 * instruction_info.c: what instructions are for. */
trm_status trm_describe_graph(const trm_program *program, bool is_model, trm_stream *stream,
                              trm_error *error);
void trm_describe_execution(const trm_program *program, trm_stream *stream);
trm_status trm_describe_tensor_map(const trm_program *program, trm_stream *stream,
                                   trm_error *error);

trm_status trm_describe_instructions(const trm_program *program, trm_stream *stream,
                                     trm_error *error);

#endif /* TREMULA_REPORT_DESCRIBE_H_ */
