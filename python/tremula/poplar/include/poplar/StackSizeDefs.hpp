/* Sizes of stacks that codelets declare. Vertices run on the thread's own stack, so they are
 * nothing here. */
#pragma once

#define DEF_STACK_USAGE(SIZE, NAME)
#define DEF_FUNCTION_CALL_PTRS(NAME, CALLS)
#define DEF_FUNC_CALL_PTRS(NAME, CALLS)
#define RECURSIVE_FUNCTION_SIZE(...)
