/* Owns: MPI's library, its functions, and what its ABIs differ in. */
#include "group/mpi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tremula/group.h"
#include "tremula/log.h"

/* The names of MPI's functions, and their parameters after the ABI's handles are made wide: an int
 * handle travels in the low half of the same register, or of the same zeroed memory. */
#define FUNCTIONS(F)                                                                             \
  F(Initialized, (int *))                                                                        \
  F(Init_thread, (int *, char ***, int, int *))                                                  \
  F(Query_thread, (int *))                                                                       \
  F(Finalize, (void))                                                                            \
  F(Comm_rank, (trm_mpi_handle, int *))                                                          \
  F(Comm_size, (trm_mpi_handle, int *))                                                          \
  F(Comm_dup, (trm_mpi_handle, trm_mpi_handle *))                                                \
  F(Comm_set_errhandler, (trm_mpi_handle, trm_mpi_handle))                                       \
  F(Error_string, (int, char *, int *))                                                          \
  F(Allgather, (const void *, int, trm_mpi_handle, void *, int, trm_mpi_handle, trm_mpi_handle)) \
  F(Iprobe, (int, int, trm_mpi_handle, int *, int *))                                            \
  F(Isend, (const void *, int, trm_mpi_handle, int, int, trm_mpi_handle, trm_mpi_handle *))      \
  F(Irecv, (void *, int, trm_mpi_handle, int, int, trm_mpi_handle, trm_mpi_handle *))            \
  F(Test, (trm_mpi_handle *, int *, int *))

/* A status is at most so many ints in any ABI. */
enum { STATUS_INTS = 16, MAX_PIECE = 1 << 30 };

/* What the headers mpi.h of Open MPI 5 and MPICH 5, and mpi_abi.h of MPI 5's standard ABI, say. */
typedef struct abi {
  const char *name;
  /* World, byte, and the handler that makes functions return errors: a symbol, or its number. */
  const char *world_symbol, *byte_symbol, *handler_symbol;
  trm_mpi_handle world, byte, handler;
  int any_source, serialized, multiple;
  int source_at; /* the place of MPI_SOURCE in a status, in ints */
} abi;

static const abi open_mpi = {
    .name = "Open MPI",
    .world_symbol = "ompi_mpi_comm_world",
    .byte_symbol = "ompi_mpi_byte",
    .handler_symbol = "ompi_mpi_errors_return",
    .any_source = -1,
    .serialized = 2,
    .multiple = 3,
};
static const abi mpich = {
    .name = "MPICH",
    .world = 0x44000000,
    .byte = 0x4c00010d,
    .handler = 0x54000001,
    .any_source = -2,
    .serialized = 2,
    .multiple = 3,
    .source_at = 2,
};
static const abi standard = {
    .name = "MPI's standard ABI",
    .world = 0x101,
    .byte = 0x247,
    .handler = 0x143,
    .any_source = -1,
    .serialized = 2048,
    .multiple = 4096,
};

static struct {
  pthread_mutex_t mutex; /* held while MPI works */
  void *library;
  abi abi;
  bool runs, is_ours; /* whether trm_mpi_open has started MPI, and not somebody before it */
  int rank, size, level;
  trm_group_traffic traffic;
#define MEMBER(name, parameters) int(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
} mpi = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- Loading -------------------------------------------------------------------------------- */

/* The libraries by the sonames of their ABIs, which do not change. */
static const char *const open_mpi_names[] = {"libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1",
                                             NULL};
static const char *const mpich_names[] = {"libmpi.so.12", "libmpi_abi.so.1", "libmpi.so.40", NULL};

/* A library that was found and does not load says why, in `why`. */
static void *load_from(const char *folder, const char *name, char *path, size_t size,
                       trm_text *why) {
  if (folder == NULL) {
    snprintf(path, size, "%s", name);
  } else {
    snprintf(path, size, "%s/%s", folder, name);
  }
  /* Open MPI loads components that look for its symbols. */
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) trm_text_format(why, "%s%s", why->length > 0 ? "; " : "", dlerror());
  return library;
}

static trm_status find_library(const char *named, const char *folder, const char *launcher,
                               char *path, size_t size, trm_error *error) {
  trm_text why = {0};
  if (named == NULL) named = getenv("TREMULA_MPI_LIBRARY");
  if (named != NULL && *named != '\0') {
    mpi.library = load_from(NULL, named, path, size, &why);
    if (mpi.library == NULL) {
      trm_fail(error, TRM_FAILED_PRECONDITION,
               "MPI's library %s does not load (%s): set TREMULA_MPI_LIBRARY to the file that "
               "belongs to the mpirun that started this process",
               named, why.data == NULL ? "no memory" : why.data);
      trm_text_free(&why);
      return TRM_FAILED_PRECONDITION;
    }
    return TRM_OK;
  }
  char beside[3900];
  const char *prefix = getenv("OPAL_PREFIX"); /* the launcher's */
  snprintf(beside, sizeof beside, "%s/lib", prefix == NULL ? "" : prefix);
  const char *const folders[] = {prefix == NULL ? folder : beside, folder};
  const char *const *names = strcmp(launcher, "MPICH") == 0 ? mpich_names : open_mpi_names;
  for (int i = 0; names[i] != NULL && mpi.library == NULL; ++i) {
    for (size_t f = 0; f < 2 && mpi.library == NULL; ++f) {
      if (folders[f] != NULL) mpi.library = load_from(folders[f], names[i], path, size, &why);
    }
    if (mpi.library == NULL) mpi.library = load_from(NULL, names[i], path, size, &why);
  }
  if (mpi.library == NULL) {
    trm_fail(error, TRM_FAILED_PRECONDITION,
             "this process is one of several, and no MPI was found to reach the others: `pip "
             "install tremula[mpi]` brings one, and its mpirun; or set TREMULA_MPI_LIBRARY to the "
             "library (%s)",
             why.data == NULL ? "no memory" : why.data);
    trm_text_free(&why);
    return TRM_FAILED_PRECONDITION;
  }
  trm_text_free(&why);
  return TRM_OK;
}

/* Data symbols of Open MPI are the objects that its handles point to. */
static bool find_handle(const char *symbol, trm_mpi_handle *handle) {
  if (symbol != NULL) *handle = (trm_mpi_handle)dlsym(mpi.library, symbol);
  return *handle != 0;
}

static trm_status find_functions(const char *path, trm_error *error) {
  mpi.abi = dlsym(mpi.library, open_mpi.world_symbol) != NULL ? open_mpi
            : strstr(path, "mpi_abi") != NULL                 ? standard
                                                              : mpich;
  bool found = find_handle(mpi.abi.world_symbol, &mpi.abi.world) &&
               find_handle(mpi.abi.byte_symbol, &mpi.abi.byte) &&
               find_handle(mpi.abi.handler_symbol, &mpi.abi.handler);
  void *symbol;
#define FIND(name, parameters)                 \
  symbol = dlsym(mpi.library, "MPI_" #name);   \
  memcpy(&mpi.name, &symbol, sizeof mpi.name); \
  found = found && symbol != NULL;
  FUNCTIONS(FIND)
#undef FIND
  if (!found) FAIL(FAILED_PRECONDITION, "%s is no MPI library: it lacks functions of MPI-3", path);
  return TRM_OK;
}

/* ---- Starting and ending -------------------------------------------------------------------- */

static trm_status check(int code, const char *what, trm_error *error) {
  if (code == 0) return TRM_OK;
  char text[1024] = "unknown error";
  int length = 0;
  mpi.Error_string(code, text, &length);
  FAIL(UNAVAILABLE, "MPI_%s failed: %.400s", what, text);
}

/* Sets a variable that has no value; true if it is set now and must be unset again. */
static bool lend(const char *name, const char *value) {
  return getenv(name) == NULL && setenv(name, value, 1) == 0;
}

/* Tells an Open MPI that lies in an environment, as PyPI's, what its own launcher tells and Slurm
 * does not: where its files are (OPAL_PREFIX), and which of Slurm's ways to prove who speaks its
 * PMIx has. PMIx complains of each way that it lacks, though one suffices. The part btl/ofi serves
 * one-sided communication, which the group has none of, and sleeps a second when it begins. */
static int initialize(const char *path, const char *folder) {
  static const char lib[] = "/lib";
  char prefix[4096];
  const size_t length = folder == NULL ? 0 : strlen(folder), end = length - strlen(lib);
  const bool lies_there = length > strlen(lib) && length < sizeof prefix &&
                          strncmp(path, folder, length) == 0 && strcmp(folder + end, lib) == 0;
  if (lies_there) snprintf(prefix, sizeof prefix, "%.*s", (int)end, folder);
  const char *ways = getenv("PMIX_SECURITY_MODE");
  const bool has_native = lies_there && ways != NULL && strstr(ways, "native") != NULL;
  const bool lent_prefix = lies_there && lend("OPAL_PREFIX", prefix);
  const bool lent_way = has_native && lend("PMIX_MCA_psec", "native");
  const bool lent_parts = lies_there && lend("OMPI_MCA_btl", "^ofi");
  const int code = mpi.Init_thread(NULL, NULL, mpi.abi.multiple, &mpi.level);
  if (lent_parts) unsetenv("OMPI_MCA_btl");
  if (lent_prefix) unsetenv("OPAL_PREFIX");
  if (lent_way) unsetenv("PMIX_MCA_psec");
  return code;
}

static trm_status start(const char *path, const char *folder, const char *launcher,
                        uint32_t expected, trm_error *error) {
  int runs = 0;
  TRY(check(mpi.Initialized(&runs), "Initialized", error));
  mpi.is_ours = !runs;
  TRY(check(runs ? mpi.Query_thread(&mpi.level) : initialize(path, folder), "Init_thread", error));
  if (mpi.level < mpi.abi.serialized) {
    FAIL(FAILED_PRECONDITION,
         "MPI (%s) runs for one thread only: whoever starts it must ask for MPI_THREAD_MULTIPLE",
         path);
  }
  TRY(check(mpi.Comm_rank(mpi.abi.world, &mpi.rank), "Comm_rank", error));
  TRY(check(mpi.Comm_size(mpi.abi.world, &mpi.size), "Comm_size", error));
  if (mpi.size == 1 && expected > 1 && strcmp(launcher, "Slurm") == 0) {
    FAIL(FAILED_PRECONDITION,
         "Slurm started %u processes, but in %s (%s) this one is alone: start the program with "
         "`srun --mpi=pmix`, or with poprun or mpirun in the job (salloc, sbatch)",
         expected, path, mpi.abi.name);
  }
  if (mpi.size == 1 && expected > 1) {
    FAIL(FAILED_PRECONDITION,
         "%s started %u processes, but in %s (%s) this one is alone, so the two do not belong "
         "together: set TREMULA_MPI_LIBRARY to the launcher's library, or use another mpirun",
         launcher, expected, path, mpi.abi.name);
  }
  trm_log(TRM_LOG_INFO, "GROUP", "MPI is %s (%s): rank %d of %d", path, mpi.abi.name, mpi.rank,
          mpi.size);
  return TRM_OK;
}

trm_status trm_mpi_open(const char *library, const char *folder, const char *launcher,
                        uint32_t expected_size, trm_error *error) {
  char path[4096] = "";
  trm_status status = TRM_OK;
  pthread_mutex_lock(&mpi.mutex);
  if (!mpi.runs) {
    status = find_library(library, folder, launcher, path, sizeof path, error);
    if (status == TRM_OK) status = find_functions(path, error);
    if (status == TRM_OK) status = start(path, folder, launcher, expected_size, error);
    mpi.runs = status == TRM_OK;
  }
  pthread_mutex_unlock(&mpi.mutex);
  return status;
}

void trm_mpi_close(void) {
  pthread_mutex_lock(&mpi.mutex);
  if (mpi.runs && mpi.is_ours) mpi.Finalize();
  mpi.runs = false;
  pthread_mutex_unlock(&mpi.mutex);
}

uint32_t trm_mpi_rank(void) { return (uint32_t)mpi.rank; }
uint32_t trm_mpi_size(void) { return (uint32_t)mpi.size; }
bool trm_mpi_has_threads(void) { return mpi.level >= mpi.abi.multiple; }

/* ---- Messages ------------------------------------------------------------------------------- */

trm_status trm_mpi_all_gather(const void *mine, int bytes, void *out_all, trm_error *error) {
  pthread_mutex_lock(&mpi.mutex);
  const int code =
      mpi.Allgather(mine, bytes, mpi.abi.byte, out_all, bytes, mpi.abi.byte, mpi.abi.world);
  pthread_mutex_unlock(&mpi.mutex);
  return check(code, "Allgather", error);
}

trm_status trm_mpi_duplicate_world(trm_mpi_handle *out_communicator, trm_error *error) {
  trm_mpi_handle communicator = 0;
  pthread_mutex_lock(&mpi.mutex);
  int code = mpi.Comm_dup(mpi.abi.world, &communicator);
  if (code == 0) code = mpi.Comm_set_errhandler(communicator, mpi.abi.handler);
  pthread_mutex_unlock(&mpi.mutex);
  TRY(check(code, "Comm_dup", error));
  *out_communicator = communicator;
  return TRM_OK;
}

trm_status trm_mpi_probe(trm_mpi_handle communicator, int tag, bool *out_found,
                         uint32_t *out_source, trm_error *error) {
  int found = 0, status[STATUS_INTS] = {0};
  pthread_mutex_lock(&mpi.mutex);
  const int code = mpi.Iprobe(mpi.abi.any_source, tag, communicator, &found, status);
  pthread_mutex_unlock(&mpi.mutex);
  TRY(check(code, "Iprobe", error));
  *out_found = found != 0;
  *out_source = (uint32_t)status[mpi.abi.source_at];
  return TRM_OK;
}

static trm_status post(trm_transfer *t, trm_error *error) {
  const size_t left = t->bytes - t->posted;
  const int piece = left < MAX_PIECE ? (int)left : MAX_PIECE;
  char *data = t->data + t->posted;
  t->request = 0;
  t->posted += (size_t)piece;
  pthread_mutex_lock(&mpi.mutex);
  if (t->sends) {
    mpi.traffic.bytes_sent += (size_t)piece;
    ++mpi.traffic.messages_sent;
  }
  const int code = t->sends ? mpi.Isend(data, piece, mpi.abi.byte, (int)t->peer, t->tag,
                                        t->communicator, &t->request)
                            : mpi.Irecv(data, piece, mpi.abi.byte, (int)t->peer, t->tag,
                                        t->communicator, &t->request);
  pthread_mutex_unlock(&mpi.mutex);
  return check(code, t->sends ? "Isend" : "Irecv", error);
}

void trm_group_get_traffic(trm_group_traffic *out_traffic) {
  pthread_mutex_lock(&mpi.mutex);
  *out_traffic = mpi.traffic;
  pthread_mutex_unlock(&mpi.mutex);
}

trm_status trm_transfer_begin(trm_transfer *transfer, trm_error *error) {
  transfer->posted = 0;
  transfer->done = false;
  return post(transfer, error);
}

trm_status trm_transfer_poll(trm_transfer *transfer, trm_error *error) {
  if (transfer->done) return TRM_OK;
  int done = 0, status[STATUS_INTS];
  pthread_mutex_lock(&mpi.mutex);
  const int code = mpi.Test(&transfer->request, &done, status);
  pthread_mutex_unlock(&mpi.mutex);
  TRY(check(code, "Test", error));
  if (!done) return TRM_OK;
  if (transfer->posted < transfer->bytes) return post(transfer, error);
  transfer->done = true;
  return TRM_OK;
}
