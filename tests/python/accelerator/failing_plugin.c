/* A PJRT plugin that is another one, FAILING_REAL, but fails as FAILING_HOW says:
 *   old          its table of functions is that of a version long ago
 *   early        it is of a version that knows no operands that must not be donated
 *   newer        it says that it is of a later minor version, with a longer table
 *   other        it is of another major version
 *   start        it finds no device
 *   execute:N    the N-th run of a region is an INTERNAL error; all others go well
 *   later:N      so does the N-th run, but only its event says so
 *   full:N       the N-th run of a region ends with RESOURCE_EXHAUSTED
 *   memory:N     so does the N-th array that is to be made
 *   home:N       the N-th array that is to be copied to the host is an INTERNAL error
 *   compile      nothing can be compiled
 *   serialise    nothing can be serialised
 *   say          nothing fails
 *   programs     the same; each program that is compiled is written to the file FAILING_PROGRAM
 *   donate       the same; a line says how many operands each run must not write over
 *   shapes       the same; a line says the dimensions of each run's operands
 * A line on standard error counts each region that is compiled; to `say` belong lines for each copy
 * to the accelerator, run, and copy back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xla/pjrt/c/pjrt_c_api.h>

static union {
  PJRT_Api api;
  char bytes[1 << 13];
} own;
static const PJRT_Api *real;
static struct failure {
  PJRT_Error_Code code;
  const char *text;
} failures[] = {{PJRT_Error_Code_INTERNAL, "the accelerator fell off"},
                {PJRT_Error_Code_RESOURCE_EXHAUSTED, "no memory is left"},
                {PJRT_Error_Code_UNIMPLEMENTED, "this is not made"},
                {PJRT_Error_Code_FAILED_PRECONDITION, "no device is there.\n"}};
static atomic_int executions, arrays, reads;
static _Atomic(PJRT_Event *) bad_event; /* of the run that fails later */

static struct failure *own_failure(const PJRT_Error *error) {
  for (size_t i = 0; i < sizeof failures / sizeof *failures; ++i) {
    if ((const void *)error == &failures[i]) return &failures[i];
  }
  return NULL;
}

static PJRT_Error *fail(int i) { return (PJRT_Error *)&failures[i]; }

static void destroy_error(PJRT_Error_Destroy_Args *args) {
  if (own_failure(args->error) == NULL) real->PJRT_Error_Destroy(args);
}

static void message_of(PJRT_Error_Message_Args *args) {
  const struct failure *failure = own_failure(args->error);
  if (failure == NULL) {
    real->PJRT_Error_Message(args);
    return;
  }
  args->message = failure->text;
  args->message_size = strlen(failure->text);
}

static PJRT_Error *code_of(PJRT_Error_GetCode_Args *args) {
  const struct failure *failure = own_failure(args->error);
  if (failure == NULL) return real->PJRT_Error_GetCode(args);
  args->code = failure->code;
  return NULL;
}

static int number_after(const char *how) {
  const char *wanted = getenv("FAILING_HOW");
  const size_t size = strlen(how);
  return strncmp(wanted, how, size) == 0 && wanted[size] == ':' ? atoi(wanted + size + 1) : 0;
}

static void say(const char *what) {
  if (strcmp(getenv("FAILING_HOW"), "say") == 0) fprintf(stderr, "DOES %s\n", what);
}

static PJRT_Error *no_client(PJRT_Client_Create_Args *args) {
  (void)args;
  return fail(3);
}

static void say_shapes(PJRT_Buffer *const *operands, size_t count) {
  fprintf(stderr, "SHAPES");
  for (size_t k = 0; k < count; ++k) {
    PJRT_Buffer_Dimensions_Args shape = {.struct_size = sizeof shape, .buffer = operands[k]};
    real->PJRT_Buffer_Dimensions(&shape);
    for (size_t d = 0; d < shape.num_dims; ++d) {
      fprintf(stderr, "%s%lld", d == 0 ? " " : "x", (long long)shape.dims[d]);
    }
  }
  fprintf(stderr, "\n");
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args) {
  say("run");
  if (strcmp(getenv("FAILING_HOW"), "donate") == 0) {
    /* Newer headers list these operands after launch_id: an address, and their number. */
    const size_t launch_id = offsetof(PJRT_ExecuteOptions, launch_id);
    size_t kept;
    memcpy(&kept, (char *)args->options + ((launch_id + sizeof(int) + 7) & ~7ul) + sizeof(void *),
           sizeof kept);
    fprintf(stderr, "KEEPS %zu\n", kept);
  }
  if (strcmp(getenv("FAILING_HOW"), "shapes") == 0)
    say_shapes(args->argument_lists[0], args->num_args);
  const int number = atomic_fetch_add(&executions, 1) + 1;
  if (number == number_after("execute")) return fail(0);
  if (number == number_after("full")) return fail(1);
  PJRT_Error *error = real->PJRT_LoadedExecutable_Execute(args);
  if (error == NULL && number == number_after("later")) bad_event = *args->device_complete_events;
  return error;
}

static PJRT_Error *await(PJRT_Event_Await_Args *args) {
  PJRT_Event *const bad = bad_event;
  PJRT_Error *error = real->PJRT_Event_Await(args);
  if (error != NULL || bad == NULL || args->event != bad) return error;
  bad_event = NULL;
  return fail(0);
}

static PJRT_Error *make_array(PJRT_Client_BufferFromHostBuffer_Args *args) {
  say("up");
  if (atomic_fetch_add(&arrays, 1) + 1 == number_after("memory")) return fail(1);
  return real->PJRT_Client_BufferFromHostBuffer(args);
}

static PJRT_Error *read_array(PJRT_Buffer_ToHostBuffer_Args *args) {
  say("down");
  if (args->dst != NULL && atomic_fetch_add(&reads, 1) + 1 == number_after("home")) return fail(0);
  return real->PJRT_Buffer_ToHostBuffer(args);
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *args) {
  if (strcmp(getenv("FAILING_HOW"), "compile") == 0) return fail(2);
  fprintf(stderr, "COMPILED\n");
  if (strcmp(getenv("FAILING_HOW"), "programs") == 0) {
    FILE *file = fopen(getenv("FAILING_PROGRAM"), "w");
    fwrite(args->program->code, 1, args->program->code_size, file);
    fclose(file);
  }
  return real->PJRT_Client_Compile(args);
}

static PJRT_Error *serialise(PJRT_Executable_Serialize_Args *args) {
  if (strcmp(getenv("FAILING_HOW"), "serialise") == 0) return fail(2);
  return real->PJRT_Executable_Serialize(args);
}

const PJRT_Api *GetPjrtApi(void) {
  if (real != NULL) return &own.api;
  void *library = dlopen(getenv("FAILING_REAL"), RTLD_NOW | RTLD_LOCAL);
  const PJRT_Api *(*get)(void);
  void *symbol = dlsym(library, "GetPjrtApi");
  memcpy(&get, &symbol, sizeof get);
  real = get();
  memcpy(&own, real, real->struct_size < sizeof own ? real->struct_size : sizeof own);
  own.api.PJRT_Error_Destroy = destroy_error;
  own.api.PJRT_Error_Message = message_of;
  own.api.PJRT_Error_GetCode = code_of;
  own.api.PJRT_LoadedExecutable_Execute = execute;
  own.api.PJRT_Client_BufferFromHostBuffer = make_array;
  own.api.PJRT_Buffer_ToHostBuffer = read_array;
  own.api.PJRT_Event_Await = await;
  own.api.PJRT_Client_Compile = compile;
  own.api.PJRT_Executable_Serialize = serialise;
  if (strcmp(getenv("FAILING_HOW"), "old") == 0) {
    own.api.struct_size = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Client_Compile);
    own.api.pjrt_api_version.minor_version = 3;
  }
  if (strcmp(getenv("FAILING_HOW"), "early") == 0) own.api.pjrt_api_version.minor_version = 38;
  if (strcmp(getenv("FAILING_HOW"), "newer") == 0) {
    own.api.struct_size = sizeof own;
    own.api.pjrt_api_version.minor_version += 100;
  }
  if (strcmp(getenv("FAILING_HOW"), "other") == 0) ++own.api.pjrt_api_version.major_version;
  if (strcmp(getenv("FAILING_HOW"), "start") == 0) own.api.PJRT_Client_Create = no_client;
  return &own.api;
}
