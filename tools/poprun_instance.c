/* Owns: the two processes between mpirun and an instance.
 *
 * mpirun gives an instance no time: it kills what it has started a moment after SIGTERM. So what it
 * starts only waits for a guard, whose session mpirun does not reach. The guard starts the
 * instance. When the waiting process ends, the guard sends SIGTERM to the instance, and SIGKILL
 * after ten seconds. It also writes how the instance failed into its output, where poprun reads it,
 * because mpirun does not say that of every instance:
 *
 *     poprun-failed <host> <pid> <status> <signal> */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "poprun.h"

static void report(long pid, int status) {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  fprintf(stderr, POPRUN_REPORT "%s %ld %d %d\n", host, pid,
          WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static _Noreturn void become(char **program, pid_t guard, const sigset_t *signals) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) _exit(POPRUN_FAILED);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, signals, NULL);
  execvp(program[0], program);
  const int reason = errno;
  poprun_fail("cannot run %s: %s", program[0], strerror(reason));
  _exit(reason == ENOENT ? 127 : 126);
}

/* Waits for the instance, and ends it when a signal comes. Returns its status. */
static int guard_instance(pid_t pid, const sigset_t *signals) {
  struct timespec left = {.tv_sec = POPRUN_GRACE_MS / 1000};
  bool is_ending = false;
  for (int status;;) {
    const int got = is_ending ? sigtimedwait(signals, NULL, &left) : sigwaitinfo(signals, NULL);
    if (got < 0 && errno == EAGAIN) kill(-pid, SIGKILL);
    if (got > 0 && got != SIGCHLD && !is_ending) {
      is_ending = true;
      kill(-pid, SIGTERM);
    }
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    if (is_ending) kill(-pid, SIGKILL); /* what it has started */
    return status;
  }
}

static _Noreturn void guard(char **program, pid_t parent) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(POPRUN_FAILED);
  sigset_t signals;
  sigemptyset(&signals);
  static const int waited[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof waited / sizeof waited[0]; ++i) sigaddset(&signals, waited[i]);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
  const pid_t own = getpid(), pid = fork();
  if (pid == 0) become(program, own, &signals);
  if (pid < 0) _exit(poprun_fail("cannot start a process: %s", strerror(errno)));
  setpgid(pid, pid);
  const int status = guard_instance(pid, &signals);
  if (status != 0) report(pid, status);
  _exit(exit_code(status));
}

int poprun_run_instance(char **program) {
  const pid_t own = getpid(), pid = fork();
  if (pid == 0) guard(program, own);
  if (pid < 0) return poprun_fail("cannot start a process: %s", strerror(errno));
  return exit_code(poprun_wait_for(pid));
}
