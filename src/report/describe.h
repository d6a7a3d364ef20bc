/* The parts of a document that describes a program. */
#ifndef TREMULA_REPORT_DESCRIBE_H_
#define TREMULA_REPORT_DESCRIBE_H_

#include "ipu/program/program.h"
#include "report/stream.h"

/* graph.c: what was compiled; execution.c: a run; tensor_map.c: the tiles of every value;
 * instruction_info.c: the role of instructions in training. Failures of the stream show when it is
 * closed. */
trm_status trm_describe_graph(const trm_program *program, bool is_model, trm_stream *stream,
                              trm_error *error);
void trm_describe_execution(const trm_program *program, trm_stream *stream);
trm_status trm_describe_tensor_map(const trm_program *program, trm_stream *stream,
                                   trm_error *error);

trm_status trm_describe_instructions(const trm_program *program, trm_stream *stream,
                                     trm_error *error);

#endif /* TREMULA_REPORT_DESCRIBE_H_ */
