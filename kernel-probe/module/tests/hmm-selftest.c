/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hmm-selftest: takes mappings of a file through /dev/h2d_hmm and checks the counters.
 *
 * usage: hmm-selftest [-d emulated|shipped] [-e refresh|stale|no_retry] [-t TIMEOUT_MS]
 *                     [-m MIB] DIRECTORY…
 *
 * In every directory a file of MIB (default 32) MiB is written, mapped and taken. With the
 * emulated driver all three policies are run; with the shipped one -e says which policy is
 * expected of it. -t is the timeout of the policy `stale` (default: the kernel's); `refresh`
 * gets the longest, since its timeout is for the whole range. Nothing is asserted on wall-clock
 * time, except where the shipped driver's calls are not counted: its windows are told by
 * idling. Output is TAP; each zero stands beside a cell of the same file, driver and policy
 * where the same counter must not be zero.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

enum { LOG_CAPACITY = 4096 };

static struct h2d_hmm hmm;
static struct {
	enum h2d_hmm_driver driver;
	enum h2d_hmm_policy expected;
	uint32_t timeout_ms;
	size_t bytes;
} options = {.driver = H2D_HMM_DRIVER_EMULATED, .bytes = 32 << 20};

static const char *const policy_names[] = {NULL, "refresh", "stale", "no_retry"};

/* What is done to a mapping before it is taken, and how it is asked for. */
struct cell {
	const char *name;
	int prot;
	size_t stride; /* read one byte per stride first; 0: leave absent */
	enum h2d_hmm_permission permission;
	bool copies; /* copy-on-write is expected */
};

static const struct cell cells[] = {
	{"ro-present", PROT_READ, PAGE, H2D_HMM_PERMISSION_VMA, false},
	{"ro-absent", PROT_READ, 0, H2D_HMM_PERMISSION_VMA, false},
	{"rw-absent", PROT_READ | PROT_WRITE, 0, H2D_HMM_PERMISSION_VMA, true},
	{"rw-present", PROT_READ | PROT_WRITE, PAGE, H2D_HMM_PERMISSION_VMA, true},
	{"rw-sparse", PROT_READ | PROT_WRITE, SPAN, H2D_HMM_PERMISSION_VMA, true},
	{"rw-present-access", PROT_READ | PROT_WRITE, PAGE, H2D_HMM_PERMISSION_ACCESS, false},
};

static struct h2d_hmm_attempt attempts[LOG_CAPACITY];

static void take(const void *address, size_t bytes, enum h2d_hmm_policy policy,
		 enum h2d_hmm_permission permission, struct h2d_hmm_copy_source *request)
{
	h2d_hmm_request_init(request, address, bytes);
	request->permission = permission;
	request->attempt_log = (uintptr_t)attempts;
	request->attempt_log_capacity = LOG_CAPACITY;
	if (options.driver == H2D_HMM_DRIVER_SHIPPED) {
		h2d_hmm_request_shipped(request);
	} else {
		request->policy = policy;
		request->timeout_ms = policy == H2D_HMM_POLICY_STALE ? options.timeout_ms
								     : H2D_HMM_TIMEOUT_MS_MAX;
	}
	if (h2d_hmm_copy_source(&hmm, &guest_log, request))
		guest_die("copy source");
}

/* Restarts in which copying alone took half of the shipped driver's timeout: whether they were
 * windows cannot be told from outside. */
static uint64_t unclear_restarts(const struct h2d_hmm_copy_source *request)
{
	const uint64_t limit_ns = hmm.facts.default_timeout_ms * UINT64_C(500000);
	uint64_t count = 0;

	for (uint32_t i = 0; !request->valid && i < request->attempt_log_count; i++)
		count += attempts[i].return_code && attempts[i].idle_ns < limit_ns &&
			 attempts[i].elapsed_ns - attempts[i].idle_ns >= limit_ns;
	return count;
}

/* Restarts of a driver that refreshes: its timeout is for the whole range, a busy host may use
 * it up. */
static uint64_t slow_restarts(const struct h2d_hmm_copy_source *request)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < request->attempt_log_count; i++)
		count += attempts[i].return_code && attempts[i].spans_new > 1;
	return count;
}

static void print_counters(const char *label, const struct h2d_hmm_copy_source *r,
			   uint64_t windows, uint64_t anonymous)
{
	printf("# %s: %.1f ms, %" PRIu64 " windows, %llu restarts, %llu calls, %llu EBUSY, "
	       "%llu callbacks (%llu clear, %llu foreign) on %llu pages and %llu/%llu spans, "
	       "%llu valid, %llu writable, anonymous %" PRIu64 " KiB\n",
	       label, (double)r->elapsed_ns / 1e6, windows, r->restarts, r->fault_calls,
	       r->fault_ebusy, r->callbacks, r->callbacks_by_event[H2D_HMM_EVENT_CLEAR],
	       r->callbacks_foreign, r->callback_pages, r->spans_invalidated, r->spans_touched,
	       r->pfns_valid, r->pfns_writable, anonymous / 1024);
}

/* The law: a span that holds a present read-only entry costs one invalidation. */
static void check_policy(const char *label, enum h2d_hmm_policy policy, uint64_t spans,
			 const struct h2d_hmm_copy_source *r)
{
	const bool emulated = options.driver == H2D_HMM_DRIVER_EMULATED;
	const uint64_t windows = h2d_hmm_windows(r, attempts, hmm.facts.default_timeout_ms);
	const uint64_t expected_windows = policy == H2D_HMM_POLICY_STALE ? spans : 0;
	const uint64_t expected_restarts =
		policy == H2D_HMM_POLICY_REFRESH ? slow_restarts(r) : spans;

	const uint64_t unclear = expected_windows ? unclear_restarts(r) : 0;

	guest_check(windows + unclear == expected_windows && (!expected_windows || windows),
		    "%s: windows %" PRIu64 " + %" PRIu64 " unclear = %" PRIu64, label, windows,
		    unclear, expected_windows);
	guest_check(r->restarts == expected_restarts, "%s: restarts %llu = %" PRIu64, label,
		    r->restarts, expected_restarts);
	guest_check(r->spans_invalidated == spans, "%s: spans invalidated %llu = %" PRIu64,
		    label, r->spans_invalidated, spans);
	if (!emulated && !(hmm.facts.features & H2D_HMM_FEATURE_COUNT_CALLS)) {
		guest_check(!r->valid && !r->fault_calls && !r->windows,
			    "%s: no counters invented", label);
		return;
	}
	guest_check(r->valid == (H2D_HMM_VALID_FAULT_CALLS | H2D_HMM_VALID_WINDOWS) &&
			    r->windows == windows,
		    "%s: windows counted %llu", label, r->windows);
	/* How often a window spins is for run_window(): here copying may take all of a short
	 * one. */
	if (policy == H2D_HMM_POLICY_STALE)
		guest_check(r->fault_ebusy >= spans && r->fault_calls == r->fault_ebusy + 1,
			    "%s: -EBUSY %llu times", label, r->fault_ebusy);
	else
		guest_check(r->fault_ebusy == spans && r->fault_calls == spans + 1,
			    "%s: -EBUSY %llu of %llu calls", label, r->fault_ebusy,
			    r->fault_calls);
}

static void check_cell(const char *label, const struct cell *cell, enum h2d_hmm_policy policy,
		       uint64_t spans, uint64_t anonymous, const struct h2d_hmm_copy_source *r)
{
	const uint64_t pages = options.bytes / PAGE;

	guest_check(r->last_code == 0 && !r->ended && r->mappings == 1, "%s: code %d", label,
		    r->last_code);
	guest_check(r->pfns_valid == pages && r->pfns_writable == (cell->copies ? pages : 0),
		    "%s: pages valid %llu writable %llu", label, r->pfns_valid,
		    r->pfns_writable);
	guest_check(anonymous == (cell->copies ? options.bytes : 0),
		    "%s: anonymous memory +%" PRIu64 " KiB", label, anonymous / 1024);
	guest_check((r->callbacks > 0) == (spans > 0) &&
			    r->callbacks == r->callbacks_by_event[H2D_HMM_EVENT_CLEAR] &&
			    !r->callbacks_foreign,
		    "%s: callbacks %llu", label, r->callbacks);
	guest_check(r->attempt_log_count == r->restarts + 1 &&
			    attempts[r->attempt_log_count - 1].return_code == 0,
		    "%s: attempts %u", label, r->attempt_log_count);
	check_policy(label, policy, spans, r);
}

static void run_cell(const char *where, int fd, const struct cell *cell,
		     enum h2d_hmm_policy policy)
{
	struct h2d_hmm_copy_source request;
	uint64_t before, anonymous, spans;
	char label[PATH_MAX + 64];
	void *map;

	snprintf(label, sizeof(label), "%s %s %s", where, cell->name, policy_names[policy]);
	map = mmap(NULL, options.bytes, cell->prot, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		guest_die("mmap");
	if (cell->stride)
		guest_touch(map, options.bytes, cell->stride);
	spans = cell->copies ? guest_present_spans(map, options.bytes) : 0;
	before = guest_anonymous_bytes(map, options.bytes);
	take(map, options.bytes, policy, cell->permission, &request);
	anonymous = guest_anonymous_bytes(map, options.bytes) - before;
	print_counters(label, &request,
		       h2d_hmm_windows(&request, attempts, hmm.facts.default_timeout_ms),
		       anonymous);
	check_cell(label, cell, policy, spans, anonymous, &request);
	munmap(map, options.bytes);
}

static void run_directory(const char *directory)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/hmm-selftest.bin", directory);
	fd = guest_make_file(path, options.bytes);
	for (int policy = H2D_HMM_POLICY_REFRESH; policy <= H2D_HMM_POLICY_NO_RETRY; policy++) {
		if (options.driver == H2D_HMM_DRIVER_SHIPPED && policy != (int)options.expected)
			continue;
		for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++)
			run_cell(directory, fd, &cells[i], (enum h2d_hmm_policy)policy);
	}
	close(fd);
	unlink(path);
}

/* Several mappings in one range, one of them read-only, then one missing. */
static void run_pieces(void)
{
	const size_t bytes = 4 * SPAN;
	struct h2d_hmm_copy_source r;
	char *map;

	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED || mprotect(map + SPAN, SPAN, PROT_READ))
		guest_die("pieces");
	take(map, bytes, H2D_HMM_POLICY_NO_RETRY, H2D_HMM_PERMISSION_VMA, &r);
	guest_check(r.last_code == 0 && r.mappings == 3 && r.driver_calls == 3 + 3 * r.restarts,
		    "pieces: %llu mappings, %llu driver calls", r.mappings, r.driver_calls);
	guest_check(r.pfns_valid == bytes / PAGE && r.pfns_writable == 3 * SPAN / PAGE,
		    "pieces: valid %llu writable %llu", r.pfns_valid, r.pfns_writable);

	h2d_hmm_request_init(&r, map, bytes);
	r.permission = H2D_HMM_PERMISSION_ACCESS;
	r.access = H2D_HMM_ACCESS_WRITE;
	guest_check(!h2d_hmm_copy_source(&hmm, &guest_log, &r) && r.last_code == -EPERM,
		    "pieces: write access to a read-only mapping: %d", r.last_code);

	if (munmap(map + 2 * SPAN, PAGE))
		guest_die("munmap");
	take(map, bytes, H2D_HMM_POLICY_NO_RETRY, H2D_HMM_PERMISSION_VMA, &r);
	guest_check(r.last_code == -EFAULT && !r.driver_calls, "pieces: a hole: %d",
		    r.last_code);
	munmap(map, bytes);
}

static void on_signal(int number)
{
	(void)number;
}

/* A writable private mapping of anonymous pages that a fork has made read-only: every span of
 * it costs an invalidation. The child keeps its copy until it is told to go. */
static char *forked_memory(size_t bytes, pid_t *child)
{
	char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (map == MAP_FAILED)
		guest_die("mmap");
	*child = fork();
	if (*child < 0)
		guest_die("fork");
	if (!*child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return map;
}

/* One span, a timeout that leaves room: a window is a loop that gets nowhere. */
static void run_window(void)
{
	struct h2d_hmm_copy_source r;
	pid_t child;
	char *map = forked_memory(SPAN, &child);
	const uint64_t spans = guest_present_spans(map, SPAN);
	int err;

	h2d_hmm_request_init(&r, map, SPAN);
	r.timeout_ms = 1500;
	err = h2d_hmm_copy_source(&hmm, &guest_log, &r);
	guest_check(!err && !r.last_code && r.windows == spans && r.fault_ebusy > 10 * spans,
		    "window: %llu in %" PRIu64 " spans, -EBUSY %llu times", r.windows, spans,
		    r.fault_ebusy);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(map, SPAN);
}

/* A signal with a handler ends a request between two attempts, with its counters so far. */
static void run_interrupted(void)
{
	const struct itimerval every = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	const struct sigaction action = {.sa_handler = on_signal};
	struct h2d_hmm_copy_source r;
	const size_t bytes = 4 * SPAN;
	uint64_t windows = 0, rounds = 0;
	pid_t child;
	char *map;
	int err;

	sigaction(SIGALRM, &action, NULL);
	map = forked_memory(bytes, &child);
	setitimer(ITIMER_REAL, &every, NULL);
	do {
		h2d_hmm_request_init(&r, map, bytes);
		r.timeout_ms = 60;
		err = h2d_hmm_copy_source(&hmm, &guest_log, &r);
		if (err == H2D_E_CANCELLED && r.ended != H2D_HMM_ENDED_SIGNAL)
			break;
		windows += r.windows;
		rounds++;
	} while (err == H2D_E_CANCELLED);
	setitimer(ITIMER_REAL, &never, NULL);
	guest_check(!err && !r.last_code && rounds > 1 && windows >= bytes / SPAN,
		    "interrupted: %" PRIu64 " windows in %" PRIu64 " rounds", windows, rounds);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(map, bytes);
}

/* A fatal signal ends it inside a window: of ten seconds here, and there would be many. */
static void run_killed(void)
{
	struct h2d_hmm_copy_source r;
	const size_t bytes = 16 * SPAN;
	pid_t victim, child;
	int status = 0, ms;

	victim = fork();
	if (victim < 0)
		guest_die("fork");
	if (!victim) {
		h2d_hmm_request_init(&r, forked_memory(bytes, &child), bytes);
		r.timeout_ms = H2D_HMM_TIMEOUT_MS_MAX;
		h2d_hmm_copy_source(&hmm, &guest_log, &r);
		_exit(0);
	}
	usleep(500000);
	kill(victim, SIGKILL);
	for (ms = 0; ms < H2D_HMM_TIMEOUT_MS_MAX / 2; ms++) {
		if (waitpid(victim, &status, WNOHANG) == victim)
			break;
		usleep(1000);
	}
	guest_check(WIFSIGNALED(status) && ms < H2D_HMM_TIMEOUT_MS_MAX / 2,
		    "killed inside a window");
}

/* What user space must not get away with, beside a request that is in order. */
static void run_refusals(void)
{
	const struct h2d_log silent = {0};
	static char memory[4 * PAGE] __attribute__((aligned(4096)));
	struct h2d_hmm_copy_source good, r;

	h2d_hmm_request_init(&good, memory, sizeof(memory));
	good.policy = H2D_HMM_POLICY_NO_RETRY;
	r = good;
	guest_check(!h2d_hmm_copy_source(&hmm, &guest_log, &r) && !r.last_code, "in order");
#define REFUSED(field, value)                                                                  \
	do {                                                                                   \
		r = good;                                                                      \
		r.field = (value);                                                             \
		guest_check(h2d_hmm_copy_source(&hmm, &silent, &r) == H2D_E_INVALID,           \
			    "refused: " #field " = " #value);                                  \
	} while (0)
	REFUSED(size, sizeof(r) - 8);
	REFUSED(abi_version, 0);
	REFUSED(abi_version, H2D_HMM_ABI_VERSION + 1);
	REFUSED(address, r.address + 1);
	REFUSED(address, 1ULL << 63);
	REFUSED(address, -(uint64_t)PAGE);
	REFUSED(length, 0);
	REFUSED(length, PAGE - 1);
	REFUSED(length, H2D_HMM_LENGTH_MAX + PAGE);
	REFUSED(driver, 0);
	REFUSED(driver, 3);
	REFUSED(policy, 0);
	REFUSED(policy, H2D_HMM_POLICY_NONE);
	REFUSED(permission, 0);
	REFUSED(permission, 3);
	REFUSED(access, 0);
	REFUSED(access, 3);
	REFUSED(timeout_ms, H2D_HMM_TIMEOUT_MS_MAX + 1);
	REFUSED(restart_max, H2D_HMM_RESTART_MAX + 1);
	REFUSED(attempt_log_capacity, 1);
	REFUSED(attempt_log, (uintptr_t)attempts);
	REFUSED(flags, 1);
	REFUSED(reserved_in[3], 1);
#undef REFUSED
}

static enum h2d_hmm_policy policy_of(const char *name)
{
	for (int i = H2D_HMM_POLICY_REFRESH; i <= H2D_HMM_POLICY_NO_RETRY; i++)
		if (!strcmp(name, policy_names[i]))
			return (enum h2d_hmm_policy)i;
	errno = EINVAL;
	guest_die("policy %s", name);
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "d:e:t:m:")) != -1) {
		switch (option) {
		case 'd':
			if (!strcmp(optarg, "shipped"))
				options.driver = H2D_HMM_DRIVER_SHIPPED;
			break;
		case 'e':
			options.expected = policy_of(optarg);
			break;
		case 't':
			options.timeout_ms = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'm':
			options.bytes = strtoul(optarg, NULL, 10) << 20;
			break;
		default:
			return 2;
		}
	}
	if (!options.bytes || options.bytes > 1 << 30 ||
	    (options.driver == H2D_HMM_DRIVER_SHIPPED && !options.expected))
		return 2;
	if (h2d_hmm_open(NULL, &guest_log, &hmm))
		return 77;
	printf("# driver %s, signature %d, HZ %u, timeout %u ms\n",
	       h2d_hmm_driver_state_string(hmm.facts.driver_state), hmm.facts.signature,
	       hmm.facts.hz, hmm.facts.default_timeout_ms);
	run_refusals();
	run_pieces();
	run_window();
	run_interrupted();
	run_killed();
	for (int i = optind; i < argc; i++)
		run_directory(argv[i]);
	h2d_hmm_close(&hmm);
	return guest_finish();
}
