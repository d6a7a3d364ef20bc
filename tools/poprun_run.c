/* Owns: the run of a job: the process mpirun, signals, the end of all processes, and which instance
 * failed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "poprun.h"

/* How long mpirun may take to end after a signal, and then what it has left: longer than guards
 * give instances. */
enum { PATIENCE_MS = 5000, LEFT_MS = POPRUN_GRACE_MS + 2000 };

int poprun_wait_for(pid_t pid) {
  int status = -1;
  if (pid <= 0) return -1;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct run {
  const poprun_job *job;
  poprun_output *output;
  pid_t pid;  /* of mpirun */
  int status; /* as waitpid() has it, when it has ended */
  bool has_ended;
  int pipes[2];     /* its output; -1 at the end */
  int signals;      /* a signalfd */
  int interrupted;  /* the signal that poprun got; 0: none */
  int64_t deadline; /* after a signal */
} run;

/* ---- Starting ------------------------------------------------------------------------------- */

static _Noreturn void become(const poprun_job *job, const words *command, int out, int err,
                             pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun ends its instances, however poprun ends */
  if (getppid() != parent) _exit(POPRUN_FAILED);
  if (job->mpirun == NULL) {
    words variables = {0};
    poprun_environment(job, 0, &variables);
    for (size_t i = 0; i < variables.count; ++i) putenv(variables.items[i]);
  }
  execvp(command->items[0], command->items);
  const int code = poprun_fail("cannot run %s: %s", command->items[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : code);
}

static int start(run *r, const words *command) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return poprun_fail("no pipe: %s", strerror(errno));
  if (pipe2(err, O_CLOEXEC) != 0) return poprun_fail("no pipe: %s", strerror(errno));
  /* What mpirun leaves behind becomes a child of this process, which ends it. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  sigemptyset(&set);
  static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (size_t i = 0; i < sizeof caught / sizeof caught[0]; ++i) sigaddset(&set, caught[i]);
  sigprocmask(SIG_BLOCK, &set, NULL);
  r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t parent = getpid();
  fflush(stdout);
  r->pid = fork();
  if (r->pid == 0) become(r->job, command, out[1], err[1], parent);
  close(out[1]);
  close(err[1]);
  r->pipes[0] = out[0];
  r->pipes[1] = err[0];
  if (r->pid < 0) return poprun_fail("cannot start a process: %s", strerror(errno));
  poprun_log(1, "%s is process %ld", command->items[0], (long)r->pid);
  return 0;
}

/* ---- Signals and output --------------------------------------------------------------------- */

static void reap(run *r) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != r->pid) continue;
    r->status = status;
    r->has_ended = true;
  }
}

static void take_signals(run *r) {
  for (struct signalfd_siginfo info; read(r->signals, &info, sizeof info) == sizeof info;) {
    const int signal = (int)info.ssi_signo;
    if (signal == SIGCHLD) {
      reap(r);
      continue;
    }
    poprun_log(1, "got the signal %d (%s)", signal, strsignal(signal));
    if (r->interrupted == 0) {
      r->interrupted = signal;
      r->deadline = now_ms() + PATIENCE_MS;
    }
    /* A terminal sends its signals to mpirun too. */
    if (info.ssi_code != SI_KERNEL && !r->has_ended) {
      kill(r->pid, signal == SIGINT ? SIGINT : SIGTERM);
    }
  }
}

static void take_output(run *r, int number) {
  char data[1 << 16];
  const ssize_t got = read(r->pipes[number], data, sizeof data);
  if (got > 0) {
    poprun_output_take(r->output, number, data, (size_t)got);
  } else if (got == 0 || errno != EINTR) {
    close(r->pipes[number]);
    r->pipes[number] = -1;
  }
}

/* Waits up to `wait` ms (-1: without an end) for output or a signal, and takes it. */
static bool step(run *r, int wait) {
  struct pollfd polled[3] = {{.fd = r->pipes[0], .events = POLLIN},
                             {.fd = r->pipes[1], .events = POLLIN},
                             {.fd = r->signals, .events = POLLIN}};
  const int ready = poll(polled, 3, wait);
  if (ready <= 0) return ready < 0 && errno == EINTR;
  for (int i = 0; i < 2; ++i) {
    if (polled[i].revents != 0 && r->pipes[i] >= 0) take_output(r, i);
  }
  if (polled[2].revents != 0) take_signals(r);
  return true;
}

static void wait_for_end(run *r) {
  while (!r->has_ended) {
    int wait = -1;
    if (r->interrupted != 0) {
      const int64_t left = r->deadline - now_ms();
      if (left <= 0) kill(r->pid, SIGKILL);
      wait = left > 0 ? (int)left : 1000;
    }
    step(r, wait);
  }
}

/* ---- What is left --------------------------------------------------------------------------- */

/* Sends a signal to all children. Returns their number. */
static int signal_children(int signal) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  int count = 0;
  for (long pid; fscanf(file, "%ld", &pid) == 1; ++count) kill((pid_t)pid, signal);
  fclose(file);
  return count;
}

/* Ends processes that mpirun has left, and what these leave. */
static void end_leftovers(run *r) {
  const int64_t deadline = now_ms() + LEFT_MS;
  bool is_said = false;
  for (int signal = SIGTERM;; signal = now_ms() < deadline ? 0 : SIGKILL) {
    reap(r);
    if (signal_children(signal) == 0) break;
    if (!is_said) poprun_log(1, "ending processes that mpirun has left");
    is_said = true;
    step(r, 50);
  }
  while ((r->pipes[0] >= 0 || r->pipes[1] >= 0) && step(r, LEFT_MS)) {
  }
}

/* ---- Who failed ----------------------------------------------------------------------------- */

static void report_failure(const run *r, int code) {
  const poprun_job *job = r->job;
  const poprun_failure f = poprun_output_failure(r->output);
  for (long i = 0; i < job->options.num_instances; ++i) {
    if (job->options.only_output_from >= 0 && (f.instance < 0 || i == f.instance)) {
      poprun_output_show_last(r->output, i);
    }
  }
  if (f.instance < 0) {
    poprun_note("mpirun failed with status %d", code);
  } else if (f.signal != 0) {
    poprun_note("instance %ld (host %s, pid %ld) was ended by signal %d (%s)", f.instance, f.host,
                f.pid, f.signal, strsignal(f.signal));
  } else {
    poprun_note("instance %ld (host %s, pid %ld) ended with status %d", f.instance, f.host, f.pid,
                f.status);
  }
}

/* That of the first instance that failed: mpirun's may be another one's. */
static int exit_status(const run *r) {
  const poprun_failure f = poprun_output_failure(r->output);
  if (f.instance >= 0) return f.signal != 0 ? 128 + f.signal : f.status;
  return WIFEXITED(r->status) ? WEXITSTATUS(r->status) : 128 + WTERMSIG(r->status);
}

int poprun_run(poprun_job *job, const words *command) {
  run r = {.job = job, .pipes = {-1, -1}};
  int code = start(&r, command);
  if (code != 0) return code;
  r.output = poprun_output_new(job);
  wait_for_end(&r);
  end_leftovers(&r);
  poprun_output_end(r.output);
  code = exit_status(&r);
  if (r.interrupted != 0) {
    code = 128 + r.interrupted;
    poprun_note("all instances were ended by signal %d (%s)", r.interrupted,
                strsignal(r.interrupted));
  } else if (code != 0) {
    report_failure(&r, code);
  }
  poprun_output_free(r.output);
  close(r.signals);
  return code;
}
